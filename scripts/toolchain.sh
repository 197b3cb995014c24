#!/usr/bin/env bash
# Checks that Go is there and new enough, before anything is built. Installs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
want=$(awk '$1 == "go" {print $2; exit}' go.work)
get="Debian's and Ubuntu's golang packages are too old. Take the current archive for your machine from the download page of the
Go project, unpack it to /usr/local (it makes /usr/local/go), then type

  export PATH=\$PATH:/usr/local/go/bin

and try again."
if ! command -v go >/dev/null; then
	if [ -x /usr/local/go/bin/go ]; then
		echo "kaged needs go in PATH; it is in /usr/local/go/bin: type  export PATH=\$PATH:/usr/local/go/bin  and try again." >&2
		exit 1
	fi
	printf 'kaged needs Go %s or newer, and there is no go in PATH. %s\n' "$want" "$get" >&2
	exit 1
fi
# Since 1.21 go fetches the version that go.work asks for; what it says here is after that.
have=$(go env GOVERSION 2>/dev/null || go version | awk '{print $3}')
have=${have#go}
have=${have%%[-+ ]*}
if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" != "$want" ]; then
	printf 'kaged needs Go %s or newer, and %s is %s. %s\n' "$want" "$(command -v go)" "${have:-unknown}" "$get" >&2
	exit 1
fi
