. .ci/setup.sh; root=/work/w/link; profile=dev; setup dev --extra train --extra sweep --extra docs
