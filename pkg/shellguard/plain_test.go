package shellguard_test

import (
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"kaged.dev/pkg/shellguard"
)

// A plain command is one call of a program that its first two words describe; a text that chains, redirects, expands,
// or starts or reads another program is not plain.
func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"git push origin main":            "git|push|origin|main",
		"  git  push\t'a;b' \"c d\" ":     "git|push|a;b|c d",
		"npm install 'x && y'":            "npm|install|x && y",
		"terraform destroy -auto-approve": "terraform|destroy|-auto-approve",
		"git push; rm -rf /":              "",
		"git push\nrm -rf /":              "",
		"git push\rrm":                    "",
		"git push && curl x":              "",
		"git push || true":                "",
		"git push | sh":                   "",
		"git push &":                      "",
		"git push;":                       "",
		"git push > /etc/passwd":          "",
		"git push 2>&1":                   "",
		"git push $(rm x)":                "",
		"git push `rm x`":                 "",
		"git push $HOME":                  "",
		"git push \"$HOME\"":              "",
		"git push $'\\n'":                 "",
		"git push *":                      "",
		"git push {a,b}":                  "",
		"git push ~":                      "",
		"git push a\\ b":                  "",
		"git push # yes":                  "",
		"! git push":                      "",
		"GIT_SSH=evil git push":           "",
		"(git push)":                      "",
		"{ git push; }":                   "",
		"git() { rm x; }":                 "",
		"git push <<< x":                  "",
		"git push <(rm x)":                "",
		"git -c core.pager=evil push":     "",
		"git":                             "",
		"./git push":                      "",
		"/usr/bin/git push":               "",
		"env git push":                    "",
		"sudo git push":                   "",
		"sh -c 'git push'":                "",
		"bash script":                     "",
		"eval git push":                   "",
		". file":                          "",
		"python3 x.py":                    "",
		"xargs git push":                  "",
		"timeout 5 git push":              "",
		"find . -delete":                  "",
		"make deploy":                     "",
		"docker run x":                    "",
		"ssh host git":                    "",
		"git '' x":                        "",
		"":                                "",
		"git 'push":                       "",
	} {
		if got := strings.Join(shellguard.Plain(text), "|"); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// The words of a plain command are those that a shell would pass to the program.
func FuzzPlain(f *testing.F) {
	for _, text := range []string{
		"git push origin main", "git push 'a b' \"c\"", "git push; rm", "a b {c,d}", "a b \\c", "a 'b'\"c\"d", "a b\x00c",
		"a b=c ~d",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := shellguard.Plain(text)
		if words == nil {
			return
		}
		for _, lang := range []syntax.LangVariant{syntax.LangPOSIX, syntax.LangBash, syntax.LangMirBSDKorn} {
			file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), "")
			if err != nil {
				continue
			}
			if len(file.Stmts) != 1 {
				t.Fatalf("%q is %d statements", text, len(file.Stmts))
			}
			call, ok := file.Stmts[0].Cmd.(*syntax.CallExpr)
			if !ok {
				t.Fatalf("%q is no call", text)
			}
			got, err := expand.Fields(&expand.Config{}, call.Args...)
			if err != nil || !slices.Equal(got, words) {
				t.Fatalf("%q is %q, and a shell reads %q, %v", text, words, got, err)
			}
		}
	})
}
