#!/usr/bin/env bash
# Brings the containers of docker-compose.yml up, prints a sign-in URL, and runs the demo inside of them. Where no Docker engine
# answers it validates the files and the seccomp profile instead.
# Usage: compose.sh [up|demo]
set -euo pipefail
cd "$(dirname "$0")/.."

if ! docker compose version >/dev/null 2>&1 || ! docker info >/dev/null 2>&1; then
	scripts/cageinit.sh # what the tests import embeds it
	go test ./test/deploy/ >&2
	echo "compose: no Docker engine with compose answers here: docker-compose.yml, deploy/ and the seccomp profile are valid, and no container was started."
	exit 0
fi

KAGED_REVISION=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
export KAGED_REVISION
# Agents work as the owner of the projects, unless .env or the environment says who.
if [ -z "${KAGED_UID:-}" ] && ! grep -qs '^KAGED_UID=' .env && [ "$(id -u)" != 0 ]; then
	KAGED_UID=$(id -u)
	KAGED_GID=$(id -g)
	export KAGED_UID KAGED_GID
fi

if [ "${1:-up}" = up ]; then
	echo "compose: building; the first time takes a few minutes" >&2
	docker compose up --build --detach --wait || {
		echo "compose: it does not come up; what the containers say:" >&2
		docker compose ps --all >&2
		docker compose logs --tail 20 >&2
		exit 1
	}
fi

# The demo: a script plays the model, in the default configuration; everything else is real.
workspace() { docker compose exec -T sandbox-supervisor sh -c "$1"; }
if ! docker compose exec -T gateway grep -qs '^\[providers.rehearsal\]' /etc/kaged/local.toml; then
	echo "compose: the demo is left out: KAGED_CONFIG_DIR has a local.toml without [providers.rehearsal]" >&2
else
	workspace 'rm -rf ~/demo && cp -r /usr/share/kaged/examples/wordcount ~/demo'
	docker compose exec -T gateway kaged run --project /home/kaged/demo --model rehearsal:wordcount "fix the failing test" || {
		echo "compose: FAIL: the demo's run did not complete" >&2
		exit 1
	}
	workspace 'cd ~/demo && go test ./...' || {
		echo "compose: FAIL: the demo's test does not pass" >&2
		exit 1
	}
	workspace 'mkdir -p ~/cage && echo "limits: {pids: 64}" > ~/cage/policy.yaml && kaged cage exec --policy ~/cage/policy.yaml -- true' || {
		echo "compose: FAIL: a cage cannot be made: docker compose exec sandbox-supervisor kaged doctor says why" >&2
		exit 1
	}
	echo "demo: PASS"
fi
echo "compose ready $(docker compose exec -T gateway kaged auth launch)"
