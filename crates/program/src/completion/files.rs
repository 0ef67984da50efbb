//! Files and folders, as a shell completes them.

use std::path::Path;

/// The files and folders that begin as what is typed; folders end with a slash. With `only_folders` no files.
pub fn matching(typed: &str, only_folders: bool) -> Vec<String> {
    let (folder, begun) =
        typed.rsplit_once('/').map_or(("", typed), |(folder, begun)| (&typed[..=folder.len()], begun));
    let Ok(there) = std::fs::read_dir(at_home(folder)) else { return Vec::new() };
    let mut found: Vec<String> = there
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_folder = entry.path().is_dir();
            let is_shown = name.starts_with(begun) && (!begun.is_empty() || !name.starts_with('.'));
            (is_shown && (is_folder || !only_folders))
                .then(|| format!("{folder}{name}{}", if is_folder { "/" } else { "" }))
        })
        .collect();
    found.sort();
    if let [only] = &found[..]
        && only.ends_with('/')
        && !begun.is_empty()
    {
        // A shell ends the word after the only answer: what is in the folder is told at once.
        let inside = matching(only, only_folders);
        return if inside.is_empty() { found } else { inside };
    }
    found
}

/// A folder as it is opened: `~/` is the user's own.
fn at_home(folder: &str) -> std::path::PathBuf {
    match (folder.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(below), Some(home)) => Path::new(&home).join(below),
        _ if folder.is_empty() => Path::new(".").to_owned(),
        _ => Path::new(folder).to_owned(),
    }
}

/// A text as bash takes it for one word.
pub fn as_word(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for one in text.chars() {
        if one.is_whitespace() || r#"'"\$&;()<>|*?`#!"#.contains(one) {
            word.push('\\');
        }
        word.push(one);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_told_as_they_were_begun() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        for name in ["lines", "lines/at home", "keys"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        for name in ["line", ".hidden", "lines/laptop"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = |typed: &str, only_folders| -> Vec<String> {
            let all = matching(&format!("{root}/{typed}"), only_folders);
            all.iter().map(|one| one.strip_prefix(root).unwrap()[1..].to_owned()).collect()
        };
        assert_eq!(found("", false), ["keys/", "line", "lines/"]);
        assert_eq!(found("li", false), ["line", "lines/"]);
        assert_eq!(found("li", true), ["lines/at home/"], "the only one is entered");
        assert_eq!(found("k", true), ["keys/"], "nothing is in it");
        assert_eq!(found(".h", false), [".hidden"]);
        assert_eq!(matching("/no/such/folder/x", false), [""; 0]);
    }

    #[test]
    fn bash_is_told_one_word() {
        assert_eq!(as_word("my $file's"), r"my\ \$file\'s");
    }
}
