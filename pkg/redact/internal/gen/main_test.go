package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Rules for secrets with a recognisable form are kept, without the terminator of values in code; rules that need a name
// beside a value, and rules in leftOut, are dropped.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.toml"), filepath.Join(dir, "out.json")
	list := `
[[rules]]
id = "some-token"
regex = '''\b(tok_[a-z]{4})` + terminator + `'''
entropy = 2.0
keywords = ["TOK_"]
[[rules.allowlists]]
regexes = ['''^tok_test$''']
[[rules]]
id = "by-name"
regex = '''` + identifier + `(?:some)=([a-z]{32})'''
keywords = ["some"]
[[rules]]
id = "twilio-api-key"
regex = '''SK[0-9a-f]{32}'''
keywords = ["sk"]
[[rules]]
id = "a-path"
path = '''key$'''
`
	if err := os.WriteFile(in, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(in, out); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want := "[\n\t{\n\t\t\"id\": \"some-token\",\n" +
		"\t\t\"pattern\": \"\\\\b(tok_[a-z]{4})\",\n\t\t\"keywords\": [\n\t\t\t\"tok_\"\n\t\t],\n" +
		"\t\t\"entropy\": 2,\n\t\t\"allowed\": [\n\t\t\t\"^tok_test$\"\n\t\t]\n\t}\n]\n"
	if string(got) != want {
		t.Errorf("%s", got)
	}
	if err := run(out, in); err == nil {
		t.Error("a list that cannot be read is no error")
	}
}
