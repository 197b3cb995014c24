package redact_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"kaged.dev/pkg/redact"
)

// key is a private key in the form of a file.
var key = "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat(
	"MIIEpAIBAAKCAQEA1x/",
	8,
) + "\n-----END RSA PRIVATE KEY-----"

// made joins the parts of a secret, so that no scanner mistakes the test for a leak.
func made(parts ...string) string { return strings.Join(parts, "") }

// A secret of a known form is replaced by a marker that names its rule, in code, in JSON and in prose.
func TestSecrets(t *testing.T) {
	t.Parallel()
	var (
		github    = made("ghp_", "9qXk2LmB7vR4tY8wZ1cN6dF3gH5jK0pS2aQ4")
		anthropic = made("sk-ant-", "api03-", strings.Repeat("aB3dE6gH9jK2mN5pQ8sT1vW4yZ7_c", 3), "Xy9Zw1", "AA")
		aws       = made("AKIA", "2Z7QF5HJXWN4LKPT")
	)
	for text, want := range map[string]string{
		"token " + github + ", and so on":      "token [redacted:github-pat], and so on",
		`{"content":"KEY=\"` + github + `\""}`: `{"content":"KEY=\"[redacted:github-pat]\""}`,
		`f("` + anthropic + `")`:               `f("[redacted:anthropic-api-key]")`,
		aws + "/" + aws:                        "[redacted:aws-access-token]/[redacted:aws-access-token]",
		"a\n" + key + "\nb":                    "a\n[redacted:private-key]\nb",
		"nothing of that kind":                 "nothing of that kind",
		"AKIAIOSFODNN7EXAMPLE":                 "AKIAIOSFODNN7EXAMPLE", // the example of its documentation
		"ghp_" + strings.Repeat("a", 36):       "ghp_" + strings.Repeat("a", 36),
		"":                                     "", "x": "x",
	} {
		if got := redact.Secrets(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// Source code is unchanged: no rule matches this repository's own files.
func TestSecretsLeaveCodeAlone(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		"secrets.go", "redact.go", "../go.sum", "../../docs/ARCHITECTURE.md", "../../docs/reference/project.schema.json",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := redact.Secrets(string(text)); got != string(text) {
			t.Errorf("%s holds %v", file, redact.Markers(got))
		}
	}
}

// Configured credentials are replaced everywhere. Short ones are ignored.
func TestValues(t *testing.T) {
	t.Parallel()
	replace := redact.Values([]string{"hunter2!!", "abc", ""})
	if got := replace("Bearer hunter2!!, abc"); got != "Bearer [redacted:credential], abc" {
		t.Error(got)
	}
	if got := redact.Values(nil)("text"); got != "text" {
		t.Error(got)
	}
}

// Every rule of the list is valid, and has keywords of at least two bytes in lower case.
func TestRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var rules []struct {
		ID       string
		Keywords []string
	}
	if err := json.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if m := redact.Markers("x" + redact.Marker(r.ID)); len(m) != 1 || m[0] != redact.Marker(r.ID) {
			t.Errorf("the marker of %s is not found: %v", r.ID, m)
		}
		for _, k := range r.Keywords {
			if len(k) < 2 || k != strings.ToLower(k) {
				t.Errorf("%s has the keyword %q", r.ID, k)
			}
		}
	}
}

// Text without a secret is returned unchanged.
func FuzzSecrets(f *testing.F) {
	f.Add(key + made("ghp_", "9qXk2LmB7vR4tY8wZ1cN6dF3gH5jK0pS2aQ4"))
	f.Fuzz(func(t *testing.T, text string) {
		once := redact.Secrets(text)
		if len(redact.Markers(once)) == 0 && once != text {
			t.Errorf("%q became %q", text, once)
		}
	})
}

func BenchmarkSecrets(b *testing.B) {
	text, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		redact.Secrets(string(text))
	}
}
