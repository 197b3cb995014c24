package shellguard_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/shellguard"
)

// A command is found after any options of its wrapper: known or not, abbreviated, in groups, with or without values
// (T-SAFE-03).
func TestBehindOptions(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	for _, text := range []string{
		"flock --wait 5 f rm x", "flock --wait=5 f rm x", "flock --wai 5 f rm x", "flock -w 5 -n f rm x",
		"flock --new 5 f rm x", "flock --new f rm x", "flock f --command 'rm x'",
		"flock f --comm 'rm x'", "flock f -nc 'rm x'", "strace --output f rm x", "strace --trace open rm x",
		"strace -fo f rm x", "strace -f rm x", "strace --new rm x", "unshare --wd /tmp rm x",
		"unshare --map-user 0 rm x", "unshare -m rm x", "nsenter --wdns / rm x", "nsenter -t 1 -m rm x",
		"systemd-run --service-type oneshot rm x", "systemd-run --on-active 5 rm x",
		"systemd-run -t rm x", "systemd-run -d rm x", "systemd-run --user --pty rm x", "parallel --delay 1 rm ::: a",
		"parallel --results d rm", "parallel --new 1 rm ::: a", "env -a foo rm x",
		"env --argv0 foo rm x", "env -vi rm x", "env -iS 'rm x'", "env -S '-i rm x'", `env -S 'A=1 "rm" x'`, `env -S 'rm\_x'`,
		"env -S nice rm x", "env --split 'rm x'", "env -- A=1 rm x", `env A="$X" rm x`,
		`env -u"$X" rm x`, `nice --adjustment="$N" rm x`, `nice -n"$N" rm x`, "nice --new rm x", "nice -Z 5 rm x",
		"nice -Z rm x", "xargs --max-lines rm -rf", "xargs --max-lines=1 rm", "xargs -i rm {}",
		"xargs -l rm", "xargs --replace rm {}", "xargs --eof rm", "xargs --no-run-if-empty rm", "xargs -rn1 rm",
		"xargs --arg-file f rm", "xargs --proc 5 rm", "setarch -R rm x", "setarch x86_64 -R rm x",
		"setarch x86_64 rm x", "x86_64 rm x", "runuser -u u -- rm x", "runuser -u u rm x", "runuser u -c 'rm x'",
		"runuser u -- -c 'rm x'", "su root -- -c 'rm x'", "su -- root -c 'rm x'", "su --comm 'rm x'",
		"su --session-command 'rm x' u", "sg g -c 'rm x'", "sg g 'rm x'", "echo rm x | su", "chrt --idle 0 rm x",
		"chrt --idle rm x", "timeout --foreground 5 rm x", "timeout --kill 5 5 rm x",
		"choom -n 5 -- rm x", "prlimit --nofile=5 rm x", "prlimit -n rm x", "systemd-inhibit --what sleep rm x",
		"bwrap --bind / / --dev /dev rm x", "fakeroot -- rm x", "ssh-agent rm x", "dbus-run-session -- rm x",
		"capsh -- -c 'rm x'", "logsave f rm x", "start-stop-daemon --help; rm x", "caffeinate -i rm x",
		"ssh -o ProxyCommand='rm x' h", "ssh -o 'localcommand rm x' h", `ssh -oProxyCommand='rm x' h ls`,
		"scp -o ProxyCommand='rm x' a b", "rsync -e 'rm x' a b", "rsync -ae 'rm x' a b", "rsync a b --rsh='rm x'",
		"tar cf x --to-command='rm x'", "tar --checkpoint-action=exec='rm x' -cf a b",
		"tar -I 'rm x' -cf a b", "sort --compress-program rm x", "split --filter='rm x' f", "mapfile -C 'rm x' -c 1 a",
		"compgen -C 'rm x'", "watch --interval 5 rm x", "watch -d -n 5 rm x", "script -qc 'rm x' f",
		"script --comm 'rm x'", "fish -C 'rm x'", "fish --init-command 'rm x'", "fish --init-command='rm x'",
		"fish --comm 'rm x'", "fish -c'rm x'", "fish -ic 'rm x'", "echo rm x | fish", "bash --rcfile f -ic 'rm x'",
		"git rebase -x 'rm h'", "git rebase -ix 'rm h' HEAD~2", "git rebase HEAD~2 --exe 'rm h'",
		"git rebase --exec='rm h' main", "git submodule --quiet foreach 'rm x'", "git submodule foreach --recursive 'rm x'",
		"git submodule foreach rm x", "git difftool -x 'rm x'", "git difftool --extcmd='rm x'",
		"git filter-branch --tree-filter 'rm x'", "git filter-branch -f --index-filter 'rm x' HEAD",
		"git -C d rebase -x 'rm h'",
		"git -c core.pager='rm x' log", "git -c core.sshCommand='rm x' fetch", "git -c alias.x='!rm y' x",
		"git config alias.x '!rm y'", "git config --global core.editor 'rm x'", "git clone -c core.pager='rm x' u",
		"git ls-remote --upload-pack='rm x' .", "git push --receive-pack 'rm x'", "git grep -O'rm x' y",
		"git -c credential.helper='!rm x' fetch", "git -c difftool.x.cmd='rm x' difftool", "git bisect run rm x",
		"fd -Hx rm", "fd -x rm", "fd --exec=rm", "fd --exec rm", "fd -e go -X rm", "fd x -xrm", "fd --exec-batch=rm {}",
		"chmod a+r+w+x f", "chmod u=rwx,g=u,o=u g", "chmod a=r,a+wx g", "chmod =777 f", "chmod +777 f", "chmod u+rwx,go=u f",
		"chmod a-x,a+rwx f", "parallel sh -c 'rm {}' ::: x",
	} {
		if v := g.Text(text); v.Class != shellguard.Blocked {
			t.Errorf("%q: %v %v", text, v.Class, v.Findings)
		}
	}
	for _, text := range []string{
		"parallel {1} ::: rm", "parallel sh -c '{}' ::: x", "parallel {.} ::: rm", "git -c alias.x='push --force' x",
		"git config alias.x 'push -f'", "git push --force-with-lease=a/b", "fd -x {}", "fd -x {.}",
		"bash --rcfile <(curl x) -i", "fish", "su -s /bin/sh", `env -S "$X"`,
	} {
		if v := g.Text(text); v.Class != shellguard.Destructive {
			t.Errorf("%q: %v %v", text, v.Class, v.Findings)
		}
	}
}

// Daily commands of agents need no approval, also if they contain the words of a blocked command as data.
func TestUsualWork(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	for _, text := range []string{
		"git status", "git -C sub log -p -1", "git --no-pager diff --stat", "git -c core.pager=cat diff",
		"git -c user.name=a -c user.email=b commit -m 'rm x'", `git -c user.name="$N" commit -m x`,
		"git commit -am 'sudo rm'", "git rebase -i main", "git rebase --exec 'go test ./...' main",
		"git rebase -x make HEAD~3", `git -C "$D" log`, `git -C "$D" --git-dir "$G" status`,
		"git -c core.editor=true rebase --continue", "git submodule update --init --recursive",
		"git submodule foreach 'git pull'", "git submodule --quiet foreach git status", "git config user.name x",
		"git config alias.co checkout", "git config --get core.editor", "git config core.pager 'less -R'",
		"git config --global credential.helper store", "git clone -c core.autocrlf=false u d", "git clone --depth 1 u d",
		"git fetch -u origin a:b", "git push -u origin feature/x", "git grep -On x", "git grep -e rm -- '*.go'",
		"git bisect run go test ./...", "git difftool -t vimdiff", "git rm --cached x", "git stash push -m rm",
		"git diff --name-only | xargs gofmt -l", "git checkout -b rm",
		"find . -name '*.go' -exec grep -l rm {} +", "find . -name rm -print0 | xargs -0 grep -n rm", "xargs grep rm",
		"xargs -I{} echo rm {}", "xargs --no-run-if-empty grep rm", "xargs --null -n 1 grep rm",
		"xargs -r -n 20 go vet", "xargs --max-lines=1 echo", "xargs -P 4 -I % cp % d", "fd -e go rm", "fd -H rm",
		"fd rm -x wc -l", "fd -tf . -X wc -l",
		"flock f make", "flock -n f make test", "flock --wait 5 f echo rm", "flock -w 5 f -c 'make test'",
		"flock --nonblock --conflict-exit-code 3 f npm ci", "flock 9", "env VAR=x make", `env A="$B" make`,
		"env -u A B=rm echo rm",
		"env --ignore-environment echo rm", "env -i PATH=/bin echo rm", "env -S 'go test' ./...", "env --chdir=d npm test",
		"timeout 60 go test ./...", "timeout --preserve-status -k 5 60 echo rm", "timeout --foreground 5 echo rm",
		"nice -n 10 make", "nice --adjustment 10 echo rm", "ionice -c 3 echo rm", "nohup npm start", "setsid -w echo rm",
		"stdbuf -oL echo rm", "time -p make", "/usr/bin/time -v echo rm", "strace -f -e trace=file -o o echo rm",
		"strace -c --trace open echo rm", "strace --follow-forks echo rm", "taskset -c 0 go test", "watch -n 1 ls",
		"systemd-run --user --scope echo rm", "unshare -r --net echo rm", "setarch -R echo rm", "setarch x86_64 -R ./a.out",
		"parallel --jobs 4 gzip ::: a b", "parallel -j4 --delay 1 echo rm ::: a", "parallel --bar 'go vet {}' ::: a b",
		"ssh -p 22 -o StrictHostKeyChecking=no h ls", "ssh -i k u@h 'cat rm'", "scp -P 22 a h:b",
		"rsync -av a/ b/", "rsync -e 'ssh -p 22' a h:b", "tar czf a.tgz rm", "tar -I zstd -cf a b",
		"tar --checkpoint-action=dot -cf a b", "sort -u rm", "split -l 5 rm", "mapfile -t a < rm", "script -q f",
		"npm run rm", "npm ci", "npx tsc", "make -j4 rm", "go run ./cmd/rm", "go generate ./...", "docker build -t rm .",
		"bash -x run.sh rm", "sh -c 'echo \"$1\"' sh rm", "bash -euo pipefail -c 'make test'", "fish -c 'ls rm'",
		"fish script.fish rm", "chmod u=rwx,g=u,o=u-w f", "chmod u=rwx,g=u,o= f", "chmod a+r+w f", "chmod a+rwx,o-w f",
		"chmod -R a+rX .", "chmod +x rm", "valgrind -q ./a.out rm", "xvfb-run -a npm test", "fakeroot make rm",
		"sudoku", "env", "env | grep rm", "command -v rm", "hash -r", "caffeinate make", "mapfile -d '' -t a < <(find .)",
		"complete -p",
	} {
		if v := g.Text(text); v.Class != shellguard.Fine {
			t.Errorf("%q: %v %v", text, v.Class, v.Findings)
		}
	}
}

// Judging ends for any number of readings (it would not if each option doubled the readings), and no command hides in
// them.
func TestManyReadings(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	for name, text := range map[string]string{
		"options nobody knows":       "env" + strings.Repeat(" --zz a", 400) + " rm x",
		"letters nobody knows":       "nice" + strings.Repeat(" -ZYX", 400) + " rm x",
		"programs that start others": strings.Repeat("env --zz nice --zz ", 400) + "rm x",
		"programs that add words":    strings.Repeat("xargs --zz -i ", 400) + "rm x",
		"operands that may be many":  strings.Repeat("timeout $T ", 400) + "rm x",
		"words that are split":       "env" + strings.Repeat(" --zz -S -i", 400) + " rm x",
		"git's":                      strings.Repeat("git --zz submodule foreach ", 400) + "rm x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if v := g.Text(text); v.Class != shellguard.Blocked {
				t.Error(v)
			}
			if v := g.Argv(strings.Fields(text)); v.Class != shellguard.Blocked {
				t.Error(v)
			}
		})
	}
}
