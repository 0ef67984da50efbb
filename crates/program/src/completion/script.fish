# Completes the words of weft-link in fish. It asks the program itself, which knows its options.
complete --command weft-link --no-files --keep-order --arguments '(weft-link complete --told (commandline --current-process --tokenize --cut-at-cursor)[2..] (commandline --current-token))'
