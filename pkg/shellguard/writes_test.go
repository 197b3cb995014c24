package shellguard_test

import (
	"testing"

	"kaged.dev/pkg/shellguard"
)

// A system path is found wherever a command writes to it: by any redirection, by any option, below the command's folder
// or the folder of a cd, and in known variables (T-SAFE-02).
func TestSystemPaths(t *testing.T) {
	t.Parallel()
	g := newGuard(t).In("/src/p", "/src/p")
	for _, text := range []string{
		"echo x 1<> ~/.ssh/config", "echo x <>/etc/hosts", "echo x >| /etc/hosts", "echo x &> /etc/hosts",
		"echo x &>> /etc/hosts", "echo x >& /etc/hosts",
		"cp --target-directory /etc x", "cp -t/etc x", "cp -at /etc x", "cp --targ=/etc x", "cp x -t /etc", "mv -t /etc x",
		"mv --target /etc x", "install -m 644 -t /usr/bin x", "install -Dt /usr/bin x",
		"install x /usr/bin", "ln -st /usr/bin x", "ln -sf x /usr/bin/y", "sed --in s/a/b/ /etc/x", "sed --i s/a/b/ /etc/x",
		"sed -ni s/a/b/ /etc/x", "sed -i.bak s/a/b/ /etc/x", "sed -Ei -e s/a/b/ /etc/x",
		"sed -e s/a/b/ -i /etc/x", "sed --in-place=.bak s/a/b/ /etc/x", "perl -pi -e s/a/b/ /etc/x",
		"perl -i.bak -pe s/a/b/ /etc/x",
		"echo x >> $HOME/.ssh/config", `echo x >> "$HOME"/.ssh/config`, `echo x >> "${HOME}/.ssh/config"`,
		"tee ${HOME:-/root}/.ssh/config", "cp x $HOME/.ssh", "echo x > $PWD/.git/hooks/y",
		"echo x > $D/.git/hooks/y", "tee /etc/$X", "rmdir /etc/*", "cp x /etc/{a,b}", `cp x "/usr/bin/$N"`, "cp x ~/.ssh/$N",
		"cd /etc; echo x > passwd", "cd /etc && echo x > passwd", "cd /etc\necho x > passwd",
		"cd /etc; cd /none; echo x > passwd", "cd / && cd etc && echo x > passwd", "cd ~/.ssh; tee config",
		"cd $HOME/.ssh && tee config",
		"cd .git; cd hooks; touch x", "(cd .git/hooks && cat > pre-commit)", "cd .git && { cd hooks; touch x; }",
		"if cd .git/hooks; then touch x; fi", "cd ..; cd ../etc; touch x", "touch ../../etc/x",
		"cd /etc || touch x; touch y", "true && cd /etc; touch x", "cd /tmp; cd /etc; cd /tmp; cd -; touch x",
		"pushd /etc; touch x", "for d in a; do cd /etc; touch x; done", "cd -P /etc; touch x",
		"cd /etc; sh -c 'touch x'", "cd /etc && echo $(touch x)", "command cd /etc; touch x", "! cd /tmp || cd /etc; touch x",
		"while cd /etc; do touch x; done", "env -C /etc touch x", "env --chdir=/etc tee x",
		"curl -o /etc/x u", "curl -so /etc/x u", "curl --output /usr/bin/x u", "wget -O /etc/x u", "wget -qO/etc/x u",
		"wget -P /etc u", "tar -xC /etc -f x", "tar xf x -C /usr", "tar --extract --directory=/etc -f x",
		"unzip -d /usr x", "sort -o /etc/x y", "find . -fprint /etc/x", "dd if=a of=/etc/x", "mkfifo /etc/x",
		"setfacl -m u:a:rw /etc/x", "chattr +i /etc/x", "patch /etc/x p",
	} {
		if v := g.Text(text); v.Class != shellguard.Destructive && text[:2] != "dd" {
			t.Errorf("%q: %v %v", text, v.Class, v.Findings)
		}
	}
	hooks := newGuard(t).In("/src/p/.git/hooks", "/src/p")
	for _, text := range []string{
		"cat > pre-commit", "tee -a x", "touch ./x", "cp ../x .", "sed -i s/a/b/ x", "chmod +x pre-commit", "cd sub; touch x",
	} {
		if v := hooks.Text(text); v.Class != shellguard.Destructive {
			t.Errorf("%q in .git/hooks: %v %v", text, v.Class, v.Findings)
		}
	}
	if v := hooks.Argv([]string{"touch", "x"}); v.Class != shellguard.Destructive {
		t.Error(v)
	}
}

// Reading system paths and writing to other paths need no approval; a project inside a system folder may change its
// files.
func TestOtherPaths(t *testing.T) {
	t.Parallel()
	g := newGuard(t).In("/src/p", "/src/p")
	for _, text := range []string{
		"sed -i s/a/b/ src/x.go", "sed -i '/etc/d' x", "sed -i -e /etc/d x", "sed -n /etc/p /etc/hosts",
		"sed s/a/b/ /etc/hosts", "sed -ni.bak s/a/b/p x", "sed -s -e p /etc/hosts", "perl -ne print /etc/hosts",
		"perl -pi -e s/a/b/ x", "cp -t d x y", "cp --target-directory d /etc/hosts", "cp -r /etc/skel d",
		"install -m 755 x bin/", "ln -s /usr/bin/x y", "touch -r /etc/hosts x", "chmod --reference=/etc/hosts x",
		"chmod 644 x", "mkdir -p a/b", "mv a b", "mv -t d a b", "ls 2>&1", "cd /etc && ls 2>&1",
		"cd .git && ls 2>&1 >/dev/null", "cd .git && cat HEAD && cd .. && touch x", "cd /usr/include && grep -r x .",
		"(cd /etc && ls); touch x", "cd /tmp; touch x", "cd sub && go test ./... > out.txt", "cd sub; make; cd ..; touch x",
		"cd - ; touch x", "cd; touch x", "cd $D && touch x", "echo $(cd /etc && ls) > x",
		"cd /etc | cat; touch x", "cd /etc & touch x", "cd /etc && cat hosts > ~/x", "echo x > $HOME/x", "echo x > $D/x",
		"cat <> /dev/tty", "exec 3<>/dev/tcp/h/80", "echo x > /dev/udp/h/53", "echo x > $PWD/x", "curl -s u > x",
		"curl -o x u", "wget -O - u", "tar xf x -C d",
		"tar -C /etc -cf x.tar .", "tar czf x.tgz -C /usr/share a", "unzip -d d x", "sort -o x y",
		"find /etc -name x -fprint out", "rsync -a /etc/ d/", "scp h:/etc/hosts .", "dd_x", "git -C /usr/src/x log",
		"make -C /usr/src",
		"diff <(sort /etc/a) <(sort b)", "env -C sub touch x", "npm install", "cat > x <<E\n/etc\nE", "tee x /dev/null",
		"for f in *.go; do gofmt -w $f; done", "patch -p1 < x", "test -d d || mkdir d",
	} {
		if v := g.Text(text); v.Class != shellguard.Fine {
			t.Errorf("%q: %v %v", text, v.Class, v.Findings)
		}
	}
	inside := newGuard(t).In("/usr/src/app/sub", "/usr/src/app")
	for text, want := range map[string]shellguard.Class{
		"touch x": shellguard.Fine, "touch ../x": shellguard.Fine, "touch /usr/src/app/x": shellguard.Fine,
		"touch ../../x": shellguard.Destructive, "touch ../.git/hooks/x": shellguard.Destructive,
		"cd /usr/src/app && touch x": shellguard.Fine,
	} {
		if v := inside.Text(text); v.Class != want {
			t.Errorf("%q: %v %v", text, v.Class, v.Findings)
		}
	}
}
