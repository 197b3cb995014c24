#!/usr/bin/env bash
# Installs what is missing on Debian or Ubuntu: a C compiler to build, Postgres binaries to run, a little more to test, and the programs kaged's tools
# are measured against to bench. Never makes a system cluster. harnesses adds the agent harnesses that bench measures where they are installed.
# Usage: setup.sh build|run|test|bench|harnesses
set -euo pipefail
what=${1:-run}

have_postgres() {
	[ -n "${KAGED_PG_BIN:-}" ] && return 0
	[ -n "${KAGED_DATABASE_URL:-}" ] && return 0
	compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null && return 0
	command -v postgres >/dev/null && return 0
	command -v pg_config >/dev/null && [ -x "$(pg_config --bindir)/postgres" ]
}

need() { # command package
	command -v "$1" >/dev/null || packages+=("$2")
}

# astgrep puts ast-grep's own command under bin/peers. Without npm the comparison with it is left out, which kaged-bench says.
astgrep() {
	local version=0.51.1 peers
	peers=$(cd "$(dirname "$0")/.." && pwd)/bin/peers
	[ -e "$peers/ast-grep-$version" ] && return
	if ! command -v npm >/dev/null; then
		echo "ast-grep is not measured: there is no npm to install it with." >&2
		return
	fi
	mkdir -p "$peers"
	# The command is in a package of the platform's; the install script would only link it.
	if npm install --prefix "$peers" --no-save --no-audit --no-fund --ignore-scripts "@ast-grep/cli@$version" >&2; then
		ln -sf "$(cd "$peers" && ls -d "$PWD"/node_modules/@ast-grep/cli-*/ast-grep | head -n 1)" "$peers/ast-grep"
		touch "$peers/ast-grep-$version"
	else
		echo "ast-grep is not measured: npm could not install it." >&2
	fi
}

# harnesses puts agent harnesses under bin/peers, some 2 GB. Their install scripts are not run; opencode and claude are binaries in packages
# of the platform's, and omp runs in bun.
harnesses() {
	local root peers opencode=1.18.33 claude=2.1.332 omp=18.2.3
	root=$(cd "$(dirname "$0")/.." && pwd)
	peers=$root/bin/peers
	[ -e "$peers/harnesses-$opencode-$claude-$omp" ] && return
	bun
	mkdir -p "$peers/harnesses" "$peers/omp-modules"
	echo "installing opencode, Claude Code and oh-my-pi, some 2 GB" >&2
	npm install --prefix "$peers/harnesses" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
		"opencode-ai@$opencode" "@anthropic-ai/claude-code@$claude" >&2
	npm install --prefix "$peers/omp-modules" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
		"@oh-my-pi/pi-coding-agent@$omp" >&2
	ln -sf "$(ls -d "$peers"/harnesses/node_modules/opencode-linux-*/bin/opencode | grep -v baseline | head -n 1)" "$peers/opencode"
	ln -sf "$(ls -d "$peers"/harnesses/node_modules/@anthropic-ai/claude-code-*/claude | head -n 1)" "$peers/claude"
	printf '#!/bin/sh\nexec %q %q "$@"\n' "$(ls -d "$root"/bin/servers/bun/node_modules/@oven/bun-*/bin/bun | head -n 1)" \
		"$peers/omp-modules/node_modules/@oh-my-pi/pi-coding-agent/dist/cli.js" >"$peers/omp"
	chmod +x "$peers/omp"
	touch "$peers/harnesses-$opencode-$claude-$omp"
}

# gopls is a language server of the tests, of the version that Go 1.26 builds. It is put where cages see it.
gopls() {
	local version=v0.23.0 to=/usr/local/bin
	type -P gopls >/dev/null && return
	if [ ! -w "$to" ]; then
		echo "The tests need gopls. Type  sudo env GOBIN=$to $(command -v go || echo go) install golang.org/x/tools/gopls@$version" >&2
		exit 1
	fi
	GOWORK=off GOFLAGS=-buildvcs=false GOBIN=$to go install "golang.org/x/tools/gopls@$version"
}

# dlv is the debugger of Go programs, of the version that reads values of today's Go: distributions have older ones. It is put
# where cages see it, ahead of theirs.
dlv() {
	local version=1.27.2 to=/usr/local/bin have
	have=$(type -P dlv >/dev/null && command dlv version | sed -n 's/^Version: //p') || have=
	[ "$(printf '%s\n' "$version" "${have:-0}" | sort -V | head -n 1)" != "$version" ] || return 0
	if [ ! -w "$to" ]; then
		echo "The tests need dlv $version. Type  sudo env GOBIN=$to $(command -v go || echo go) install github.com/go-delve/delve/cmd/dlv@v$version" >&2
		exit 1
	fi
	GOWORK=off GOFLAGS=-buildvcs=false GOBIN=$to go install "github.com/go-delve/delve/cmd/dlv@v$version"
}

# servers puts language servers of the tests under bin/servers, in the versions that Node 20 runs.
servers() {
	local to mark=5.3.0-7.0.2-1.1.414-5.8.1-4.10.0-1.18.0
	to=$(cd "$(dirname "$0")/.." && pwd)/bin/servers
	[ -e "$to/installed-$mark" ] && return
	if ! command -v npm >/dev/null; then
		echo "The tests need language servers that npm installs: install Node 20 or later, with npm, and try again." >&2
		exit 1
	fi
	mkdir -p "$to"
	echo "installing language servers for the tests" >&2
	npm install --prefix "$to" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
		typescript-language-server@5.3.0 typescript@5.9.3 native@npm:typescript@7.0.2 pyright@1.1.414 bash-language-server@5.8.1 \
		vscode-langservers-extracted@4.10.0 yaml-language-server@1.18.0 >&2
	touch "$to/installed-$mark"
}

# need_rust_analyzer asks for the package of rust-analyzer, a language server of the tests, which Debian has since version 13. An
# older one needs the library that rust_analyzer does not unpack. The stand-in of rustup for a missing component fails.
need_rust_analyzer() {
	rust-analyzer --version >/dev/null 2>&1 && return
	command -v apt-get >/dev/null || return 0
	if ! command -v rustup >/dev/null && apt-cache policy rust-analyzer | grep -q 'Candidate: [0-9]'; then
		packages+=(rust-analyzer)
	elif [ ! -e "/usr/lib/$(gcc -print-multiarch)/libLLVM.so.19.1" ]; then
		packages+=(libllvm19)
	fi
}

# rust_analyzer unpacks the program of a newer Debian under bin/servers, with the libraries that it needs in newer versions, where
# need_rust_analyzer found no package of it.
rust_analyzer() {
	local to libs mirror apt deb version=1.85 names
	rust-analyzer --version >/dev/null 2>&1 && return
	to=$(cd "$(dirname "$0")/.." && pwd)/bin/servers/rust-analyzer
	[ -e "$to/installed-$version" ] && return
	if ! command -v apt-get >/dev/null; then
		echo "The tests need rust-analyzer. Type  rustup component add rust-analyzer" >&2
		exit 1
	fi
	echo "unpacking rust-analyzer for the tests" >&2
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -n 1)
	rm -rf "$to"
	mkdir -p "$to/bin" "$to/apt/lists/partial" "$to/apt/archives/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$to/apt/sources.list"
	apt=(-qq -o "Dir::Etc::SourceList=$to/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$to/apt/lists"
		-o "Dir::Cache=$to/apt" -o APT::Sandbox::User=)
	apt-get "${apt[@]}" update
	names=$(apt-cache "${apt[@]}" depends rust-analyzer | sed -n 's/.*Depends: \(libstd-rust-.*\)/\1/p')
	(cd "$to/apt" && apt-get "${apt[@]}" download rust-analyzer "$names" libc6 libgcc-s1 libstdc++6)
	for deb in "$to"/apt/*.deb; do
		dpkg -x "$deb" "$to"
	done
	libs=$(dirname "$(find "$to/usr/lib" -name 'librustc_driver-*.so' | head -n 1)")
	cat >"$to/bin/rust-analyzer" <<-EOF
		#!/bin/sh
		at=\$(dirname "\$(readlink -f "\$0")")/..
		libs=\$at/${libs#"$to/"}
		exec "\$libs"/ld-linux*.so.* --library-path "\$libs:/usr/lib/${libs##*/}:/lib/${libs##*/}" "\$at/usr/bin/rust-analyzer" "\$@"
	EOF
	chmod +x "$to/bin/rust-analyzer"
	"$to/bin/rust-analyzer" --version >&2
	rm -rf "$to/apt" "$to/usr/share"
	touch "$to/installed-$version"
}

# bun is a runtime of the tests. Its package's own install script is not run; the binary is in a package of the platform's.
bun() {
	local version=1.4.5 to
	to=$(cd "$(dirname "$0")/.." && pwd)/bin/servers/bun
	[ -e "$to/installed-$version" ] && return
	if ! command -v npm >/dev/null; then
		echo "The tests need bun, which npm installs: install Node 20 or later, with npm, and try again." >&2
		exit 1
	fi
	mkdir -p "$to"
	npm install --prefix "$to" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error "bun@$version" >&2
	touch "$to/installed-$version"
}

# console puts what the tests of the console and of the TypeScript client need beside their sources, by their lock files.
console() {
	local root
	root=$(cd "$(dirname "$0")/.." && pwd)
	"$root/scripts/web.sh" --test >&2
}

want() { # command package: without it one comparison less is made
	command -v "$1" >/dev/null && return
	if command -v apt-get >/dev/null; then
		packages+=("$2")
	else
		echo "$2 is not measured: it is not installed." >&2
	fi
}

# install installs the packages that are missing.
install() {
	[ ${#packages[@]} -gt 0 ] || return 0
	if ! command -v apt-get >/dev/null; then
		echo "kaged needs ${packages[*]}: install them with your package manager and try again." >&2
		exit 1
	fi
	# The package would make and start a cluster of its own; kaged brings its own and this one would only lie about.
	local conf cluster root
	conf=/etc/postgresql-common/createcluster.conf
	cluster=
	if [[ " ${packages[*]} " == *" postgresql "* ]] && [ ! -e $conf ]; then
		cluster=yes
	fi
	root=()
	if [ "$(id -u)" != 0 ]; then
		root=(sudo -n)
		if ! sudo -n true 2>/dev/null; then
			echo "kaged needs ${packages[*]}. Type" >&2
			echo >&2
			[ -z "$cluster" ] || echo "  sudo mkdir -p ${conf%/*} && echo 'create_main_cluster = false' | sudo tee $conf" >&2
			echo "  sudo apt-get install -y --no-install-recommends ${packages[*]}" >&2
			echo >&2
			echo "and try again.${cluster:+ The first line keeps the package from starting a database server of its own.}" >&2
			exit 1
		fi
	fi
	echo "installing ${packages[*]}" >&2
	if [ -n "$cluster" ]; then
		"${root[@]}" mkdir -p ${conf%/*}
		echo 'create_main_cluster = false' | "${root[@]}" tee $conf >/dev/null
	fi
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null 2>&1 || {
		"${root[@]}" apt-get update -qq
		"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
	}
}

if [ "$what" = harnesses ]; then
	harnesses
	exit 0
fi

packages=()
need gcc gcc # tree-sitter is C
[ -e /usr/include/stdlib.h ] || ! command -v apt-get >/dev/null || packages+=(libc6-dev)
if [ "$what" != build ]; then
	have_postgres || packages+=(postgresql)
	need git git
	need curl curl # the commands of the docs
	need jq jq
fi
if [ "$what" = test ] || [ "$what" = bench ]; then
	need python3 python3 # what runs in cages in tests
	need gdb gdb
	need clangd-19 clangd-19
	need lldb-dap-19 lldb-19
	need g++ g++
	need rustc rustc
	/usr/bin/python3 -c 'import debugpy' 2>/dev/null || packages+=(python3-debugpy)
	need apache2 apache2-bin # a sign-in proxy, with the module below
	[ -e /usr/lib/apache2/modules/mod_auth_openidc.so ] || packages+=(libapache2-mod-auth-openidc)
	need chromium chromium # the console's tests look at it there
	need cargo cargo
	need_rust_analyzer
fi
if [ "$what" = bench ]; then
	want rg ripgrep
	command -v fd >/dev/null || want fdfind fd-find
	want patch patch
	want bwrap bubblewrap
	want crun crun
	[ "$(id -u)" != 0 ] || want runc runc
fi
install
[ "$what" = build ] || have_postgres || { echo "kaged could not install Postgres: type  apt-get install postgresql  and look at what it says." >&2; exit 1; }
if [ "$what" = test ] || [ "$what" = bench ]; then
	gopls
	dlv
	servers
	bun
	rust_analyzer
fi
[ "$what" != test ] || console
[ "$what" != bench ] || astgrep
