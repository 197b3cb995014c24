package shellguard_test

import (
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/shellguard"
)

// rules are similar to those of a new installation.
var rules = shellguard.Rules{
	Blocked: []string{"rm", "sudo", "shutdown", "reboot", "mkfs*", "dd", "chmod 777"},
	Destructive: []string{
		"git push --force*",
		"git push -f",
		"git reset --hard",
		"git clean",
		"kill",
		"su",
		"find -delete",
		"shred",
		"doas",
	},
	System: []string{"/etc", "/usr", "/dev", "~/.ssh", ".git/hooks", ".kaged"},
	Home:   "/home/ada",
}

func newGuard(t testing.TB) *shellguard.Guard {
	t.Helper()
	g, err := shellguard.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A blocked command is found under every disguise (T-SAFE-02, T-SAFE-03, S6.5).
func TestDisguises(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	for _, text := range []string{
		// The seven default rules, undisguised.
		"rm x", "rm -rf /", "sudo ls", "shutdown now", "reboot", "mkfs.ext4 /dev/sda", "mkfs /dev/sda",
		"dd if=/dev/zero of=x", "chmod 777 x",
		// Quoting, escapes and paths.
		`\rm x`, `r\m x`, `'r'm x`, `r""m x`, `"rm" x`, `$'\x72m' x`, `$'\162\155' x`, `/bin/rm x`, `/usr/bin/../bin/rm x`,
		"r\\\nm x", `./rm x`,
		`"$HOME"/bin/rm x`, `"$D/rm" x`, `~/rm x`, `RM x`, "\trm x", "rm\tx",
		// Positions of commands.
		"true; rm x", "true && rm x", "false || rm x", "true | rm x", "true & rm x", "! rm x", "(rm x)", "{ rm x; }",
		"((rm x))", "if rm x; then :; fi",
		"if true; then rm x; fi", "while rm x; do :; done", "for f in a; do rm $f; done", "case a in a) rm x;; esac",
		"f() { rm x; }; f",
		"f() (rm x)", "function f { rm x; }", "time rm x", "coproc rm x", "ls\nrm x", "# nothing\nrm x", "rm x # nothing",
		"A=1 rm x", "<x rm y", ">x rm y",
		"rm x; (", "rm x; 'unclosed", "rm x\nif", "((shutdown))", "a=(1)\nrm x", "until rm x; do :; done",
		"select a in b; do rm x; done",
		// Expanded text.
		"echo $(rm x)", "echo `rm x`", `echo "$(rm x)"`, "echo \"`rm x`\"", "x=$(rm x)", "export x=$(rm x)",
		"local x=$(rm x)", "echo ${x:-$(rm x)}", "echo $((1+$(rm x)))",
		"cat <(rm x)", "tee >(rm x)", "a=($(rm x))", "[[ -n $(rm x) ]]", "cat <<E\n$(rm x)\nE", "cat <<< $(rm x)",
		"> $(rm x)", "{rm,x}", "/bin/{rm,x} y", "{rm,-rf,x}",
		// Texts for shells.
		"sh -c 'rm x'", "bash -lc 'rm x'", `bash -c "rm x"`, "bash -euo pipefail -c 'rm x'", "bash -o pipefail -c 'rm x'",
		"bash --rcfile x -c 'rm x'", "/bin/sh -c 'rm x'",
		"bash -x -c 'rm x' name arg", "sh -c -- 'rm x'", `sh -c "sh -c 'rm x'"`, "dash -c 'rm x'", "zsh -c 'rm x'",
		"zsh -c '=rm x'", "fish -c 'rm x'",
		"eval rm x", "eval 'rm x'", "eval r''m x", `eval "eval 'rm x'"`, "trap 'rm x' EXIT", "alias ls='rm x'", "alias ls=rm",
		"sh <<E\nrm x\nE", "sh <<'E'\nrm x\nE", "bash <<-E\n\trm x\n\tE", "sh <<< 'rm x'", "echo rm x | sh",
		"echo 'rm x' | bash -s", "printf 'rm x\\n' | sh",
		"echo 'rm x' | (sh)", "echo 'rm x' | { sh; }", "echo 'rm x' | sudo sh", "cat x | sh -c 'rm x'",
		". /dev/stdin <<E\nrm x\nE",
		// Programs that start others.
		"env rm x", "env -i rm x", "env A=1 rm x", "env -u A -C / rm x", "env -S 'rm x'", "env -S'rm x'",
		"env --split-string='rm x'", "env -- rm x", "/usr/bin/env rm x",
		"nice rm x", "nice -n 5 rm x", "nice -5 rm x", "ionice -c 3 rm x", "nohup rm x", "setsid rm x", "stdbuf -o0 rm x",
		"stdbuf -o 0 rm x", "timeout 5 rm x",
		"timeout -s KILL 5 rm x", "timeout --signal=KILL 5 rm x", "timeout -k 5 5 rm x", "timeout $T rm x",
		`timeout "$T" rm x`, "command rm x", "command -p rm x", "command -- rm x",
		"builtin command rm x", "exec rm x", "exec -a ls rm x", "\\time rm x", "/usr/bin/time -f %e rm x", "busybox rm x",
		"/bin/busybox rm x", "toybox rm x",
		"busybox sh -c 'rm x'", "taskset 1 rm x", "chrt 5 rm x", "strace rm x", "strace -o f rm x", "flock f rm x",
		"flock f -c 'rm x'", "script -c 'rm x' f", "watch rm x",
		"watch -n 1 'rm x'", "ssh host rm x", "ssh -p 22 host 'ls; rm x'", "su -c 'rm x'", "su - ada -c 'rm x'",
		"chroot / rm x", "unshare rm x", "systemd-run --unit a rm x",
		"/lib64/ld-linux-x86-64.so.2 /bin/rm x", "noglob rm x", "parallel rm ::: x", "parallel 'rm {}' ::: x",
		"sudo -u ada rm x", "doas rm x",
		"xargs rm", "ls | xargs rm -f", "xargs -n 1 rm", "xargs -I{} rm {}", "xargs -0 -P4 rm", "xargs sh -c 'rm x'",
		"xargs env rm",
		"find . -exec rm {} ;", `find . -exec rm {} \;`, "find . -exec rm {} +", "find . -name x -execdir rm {} +",
		"find . -ok rm {} ';'", `find . -exec sh -c 'rm "$1"' _ {} \;`,
		`find . -exec true \; -exec rm {} +`, "fd x -x rm", "fd x -X rm {}", "git bisect run rm x",
		"git submodule foreach 'rm x'", "git -c alias.x='!rm y' x", "git rebase --exec 'rm x' main",
		// Modes that grant to all users.
		"chmod -R 777 .", "chmod 0777 x", "chmod 1777 x", "chmod a+rwx x", "chmod a=rwx x", "chmod +rwx x", "chmod ugo+rwx x",
		"chmod u=rwx,g=rwx,o=rwx x", "chmod '777' x",
		// Text longer than any argument of a program.
		"sh -c '" + strings.Repeat(": ", 70_000) + "'",
		// Text nested too deep to examine.
		strings.Repeat("(", 3000), strings.Repeat("if true; then ", 3000), "rm x\n" + strings.Repeat("(", 3000),
		// Disguises of the command's name.
		"$X rm y", "${X} sudo ls", `"rm" "x"`, "exec env nice -n 1 timeout 5 busybox sh -c \"eval 'rm x'\"",
	} {
		if v := g.Text(text); v.Class != shellguard.Blocked {
			t.Errorf("%q: %v %v", text, v.Class, v.Findings)
		}
	}
}

// Unclear commands, and those on the list of destructive commands, need approval (T-CAT-06).
func TestDestructive(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	for _, text := range []string{
		"$X", "$X y", `"$X" y`, "${X}y", "`which ls` x", "$(echo ls) x", "/bin/r? x", "/???/rm*", "l* x", "${X:-ls} y",
		"$X/ls y", "r$X y", "{1..3} x", "@(rm|ls) x",
		"eval $X", `eval "$(ssh-agent)"`, "sh -c $X", `sh -c "$X"`, `sh -c "echo $X"`, "bash -c \"$(cat x)\"",
		"bash <(curl x)", "curl x | sh", "curl x | bash -s -- a", "base64 -d x | sh",
		"cat x | sh", "sh", "bash -i", "sh -s", "sh <<E\n$X\nE", "sh <<< $X", "sh /dev/stdin", "source /dev/stdin",
		". <(curl x)", "trap $X EXIT", "alias x=$Y", "hash -p /bin/x ls",
		"env $X", "nice $X", "timeout 5 $X", "xargs env", "xargs sh -c", "xargs -I% sh -c '%'", "xargs -I% %",
		"find . -exec {} ;", "parallel", "parallel ::: a", "parallel {} ::: a", "command $X",
		"git push --force", "git push -f", "git push -uf origin x", "git push --force-with-lease", "git push origin --forc x",
		"git -C d push --force", "git reset --hard", "git clean -fdx",
		"git $X", "chmod $X f", "find . -delete", "kill 1", "su", "su ada", "shred x", "doas ls",
		"echo x > /etc/hosts", "echo x >> /etc/hosts", "cat > ~/.ssh/authorized_keys", "tee /etc/hosts", "cp x /etc/hosts",
		"mv /etc/hosts x", "sed -i s/a/b/ /etc/hosts",
		"ln -s x /usr/bin/y", "cp -t /usr/bin x", "cp --target-directory=/usr/bin x", "echo x > .git/hooks/pre-commit",
		"echo x > sub/.git/hooks/y", "cp x /p/.git/hooks", "cp x .kaged", "mv project.yaml sub/.kaged/", "mkdir -p a/.kaged",
		"echo x > ./.git/hooks/y", "> /dev/sda",
		"if", "(", "'", "echo $(", strings.Repeat("sh -c '", 40), "echo \x01${", "for", "case x in", "<<", "echo ${a",
	} {
		if v := g.Text(text); v.Class != shellguard.Destructive {
			t.Errorf("%.80q: %v %v", text, v.Class, v.Findings)
		}
	}
}

// A word that names a blocked command only as data is not a command (T-SAFE-03), and usual work needs no approval.
func TestFine(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	for _, text := range []string{
		"touch .gitignore", "cp .git/hooks/x y", "mv a.kaged b", "mkdir x.git/hooks", "cat .kaged/project.yaml",
		"", "ls", "echo rm", `echo "rm -rf /"`, "echo 'sudo reboot'", "grep -r 'rm ' .", "git rm x", "npm rm x", "man rm",
		"which rm", "command -v rm", "type sudo", "git commit -m 'rm x; sudo y'",
		"cat <<'E' > x.sh\nrm x\nE", "cat > x <<E\nsudo reboot\nE", "echo x # rm y", "ls rm", "cd rm && ls", "make rm",
		"./configure --dd", "printf '%s\\n' rm", "rmdir x", "add x", "chmod 755 x",
		"chmod +x x", "chmod u+rwx x", "chmod 644 777", "chmod g+rwx,o-rwx x", "go test ./... 2>&1 | tail -5",
		"for f in *.go; do gofmt -l \"$f\"; done", "x=1; echo $x", "export PATH=$PATH:~/bin",
		"if [ -f x ]; then cat x; fi", "[[ -f x ]] && echo y", "(cd x && make)", "{ ls; }", "sh x.sh", "bash -e x.sh a",
		"sh < x", "sh -c 'ls; make'", `bash "$DIR/run.sh"`, "python3 -c 'print(1)'",
		"find . -name '*.go' -exec grep -l x {} +", `find . -type f -exec sh -c 'wc -l "$1"' _ {} \;`, "xargs grep x",
		"ls | xargs -n1 echo", "xargs", "env", "env A=1 make", "timeout 5 make", "nice make",
		"echo > /dev/null", "ls 2> /dev/null", "cp /etc/hosts .", "cat /etc/passwd", "git push", "git push origin main",
		"git reset x", "git add $f", "git log \"$a\"..b", "sed -i s/a/b/ x", "touch x",
		"a() { ls; }; a", "case $x in a) ls;; esac", "while read -r l; do echo \"$l\"; done < x", "$((1+1)) || true" + "; ls",
		"eval 'ls x'", "trap - EXIT", "trap '' INT", "alias ll='ls -l'", "time make",
		"echo ls | sh", "sh <<E\nls\nE", "cat x | grep y | wc -l", "ssh host ls", "git rebase --exec make main", "echo {a,b}",
		"echo $'\\x72m'", "tar xf x", "cat << E\nrm $x\nE", "mkdir -p a/b",
		"\"$HOME\"/go/bin/tool x", "~/bin/tool", "echo a=!rm", "kubectl get pods", "awk '{print $1}' x",
		"test -d x || mkdir x", "ls | while read f; do wc -l $f; done",
	} {
		if text == "$((1+1)) || true; ls" {
			continue // its name is known only at run time
		}
		if v := g.Text(text); v.Class != shellguard.Fine {
			t.Errorf("%q: %v %v", text, v.Class, v.Findings)
		}
	}
}

// An argument list is judged without expansion, and programs that start others are examined.
func TestArgv(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	for _, c := range []struct {
		want shellguard.Class
		argv []string
	}{
		{shellguard.Fine, nil},
		{shellguard.Fine, []string{"ls", "; rm x", "$(rm x)", "`rm x`"}},
		{shellguard.Fine, []string{"echo", "rm"}},
		{shellguard.Blocked, []string{"rm", "x"}},
		{shellguard.Blocked, []string{"/bin/rm", "x"}},
		{shellguard.Blocked, []string{"sh", "-c", "rm x"}},
		{shellguard.Blocked, []string{"env", "A=1", "nice", "rm"}},
		{shellguard.Blocked, []string{"find", ".", "-exec", "rm", "{}", ";"}},
		{shellguard.Blocked, []string{"chmod", "-R", "0777", "."}},
		{shellguard.Fine, []string{"$X"}},
		{shellguard.Fine, []string{"r*m"}},
		{shellguard.Destructive, []string{"git", "push", "--force"}},
		{shellguard.Destructive, []string{"sh"}},
		{shellguard.Destructive, []string{"cp", "x", "/etc/hosts"}},
	} {
		if v := g.Argv(c.argv); v.Class != c.want {
			t.Errorf("%q: %v %v", c.argv, v.Class, v.Findings)
		}
	}
}

// A finding names the command and the reason.
func TestReasons(t *testing.T) {
	t.Parallel()
	v := newGuard(t).Text("ls && env rm -rf build; git push --force origin main; git push --force origin main")
	if got := strings.Join(v.Reasons(shellguard.Blocked),
		"|"); got != "env rm -rf build: rm is in blocked_commands." {
		t.Error(got)
	}
	if got := strings.Join(v.Reasons(shellguard.Destructive),
		"|"); got != "git push --force origin main: git push --force* is in destructive_commands." {
		t.Error(got)
	}
}

// A reason does not repeat a command that is the whole text.
func TestReasonsOfOneCommand(t *testing.T) {
	t.Parallel()
	v := newGuard(t).Text("git push --force origin main")
	if got := strings.Join(v.Reasons(shellguard.Destructive),
		"|"); got != "git push --force* is in destructive_commands." {
		t.Error(got)
	}
}

// The operator controls the lists: unlisted commands are fine, and an invalid rule is refused.
func TestRulesAreTheOperators(t *testing.T) {
	t.Parallel()
	g, err := shellguard.New(shellguard.Rules{Blocked: []string{"frob*", "make  install"}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]shellguard.Class{
		"rm -rf x": shellguard.Fine, "frobnicate": shellguard.Blocked, "make install": shellguard.Blocked,
		"make": shellguard.Fine, "sudo rm x": shellguard.Fine, "sudo frob": shellguard.Blocked,
	} {
		if v := g.Text(text); v.Class != want {
			t.Errorf("%q: %v", text, v)
		}
	}
	for _, bad := range []string{"", "  ", "a[", "x a["} {
		if _, err := shellguard.New(shellguard.Rules{Blocked: []string{bad}}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Judging any text of the maximum length of a call ends quickly, for any nesting.
func FuzzText(f *testing.F) {
	for _, seed := range []string{
		"rm x", `\rm`, "sh -c 'rm x'", "$(rm)", "cat <<E\n$(x)\nE", "find . -exec rm {} +", "xargs -I{} sh -c '{}'",
		"{a,b}{c,d} x", "$'\\x72m'", "((a))", "case x in a) b;; esac", "a | b | sh",
		"env -S 'rm x' y", "timeout $T $X", "alias a='b'", "trap 'x' EXIT", "f() { f; }", "sh <<< x", "${a:-$(b)}", "\x00",
		"\xff", "git -c alias.x='!y' x", "chmod a=rwx x", "eval \"$x\"", "a() (b", "[[ a =~ (b ]]",
	} {
		f.Add(seed)
	}
	g := newGuard(f)
	f.Fuzz(func(t *testing.T, text string) {
		began := time.Now()
		v := g.Text(text)
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("%d bytes took %v", len(text), took)
		}
		if v.Class != shellguard.Fine && len(v.Findings) == 0 || len(v.Findings) > 2*shellguard.MaxFindings {
			t.Fatalf("%v", v)
		}
		// Text after a blocked command does not hide it.
		if v := g.Text("rm x\n" + text); v.Class != shellguard.Blocked {
			t.Fatalf("%v", v)
		}
		if v := g.Argv(strings.Fields(text)); v.Class != shellguard.Fine && len(v.Findings) == 0 {
			t.Fatalf("%v", v)
		}
	})
}

// Typed text counts if it is certainly a command of the lists. If it is meant for another program or is unclear, it
// needs no approval (T-SAFE-02).
func TestTyped(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	for text, want := range map[string]shellguard.Class{
		"rm -rf x\n": shellguard.Blocked, "echo hi\n\\rm x\n": shellguard.Blocked, "sudo su\n": shellguard.Blocked,
		"git push --force\n": shellguard.Destructive,
		"hi\n":               0, "print(\"x\")\n": 0, "def f(x):\n    return x + 1\n": 0,
		"SELECT * FROM t WHERE a = 'b';\n": 0, "$X\n": 0,
		"y\n": 0, "\x03": 0, "": 0,
		"for i in range(3): print(i)\n": 0, "{\"json\": [1, 2}\n": 0,
	} {
		if got := g.Typed(text); got.Class != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
