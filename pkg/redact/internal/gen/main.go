// Command gen writes rules.json, the known forms of secrets of package redact, from the rules of gitleaks in an
// unpacked copy of its module:
//
//	go mod download -json github.com/zricethezav/gitleaks/v8@v8.30.1 # says where it is
//	go run ./internal/gen DIR/config/gitleaks.toml rules.json
//
// It uses no network. The output is the same for the same input.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// leftOut are rules that match by context, or that also match much ordinary code, which an agent must be able to read
// and edit.
var leftOut = map[string]string{
	"clickhouse-cloud-api-secret-key": "any hexadecimal number that begins so",
	"curl-auth-header":                "a command, not a form",
	"curl-auth-user":                  "a command, not a form",
	"facebook-access-token":           "a number and a word",
	"freemius-secret-key":             "an assignment",
	"intra42-client-secret":           "its word is too common",
	"kubernetes-secret-yaml":          "a document",
	"nuget-config-password":           "an element of XML",
	"sidekiq-sensitive-url":           "an address",
	"sourcegraph-access-token":        "any commit's hash",
	"twilio-api-key":                  "SK and any MD5",
}

// changed are expressions and keywords that replace those of the list.
var changed = map[string]rule{
	"jwt":                 {Keywords: []string{"eyj", "eya"}},
	"jwt-base64":          {Keywords: []string{"zxlk"}},
	"vault-service-token": {Pattern: `\bhvs\.[\w-]{90,120}`, Keywords: []string{"hvs."}},
}

const (
	// identifier begins the rules that look for a name before any value of some length.
	identifier = `[\w.-]{0,50}?`
	// terminator ends a value in source code. Values here also end in JSON and in prose.
	terminator = `(?:[\x60'"\s;]|\\[nr]|$)`
)

type source struct {
	Rules []struct {
		ID          string   `toml:"id"`
		Regex       string   `toml:"regex"`
		Entropy     float64  `toml:"entropy"`
		SecretGroup int      `toml:"secretGroup"`
		Keywords    []string `toml:"keywords"`
		Allowlists  []struct {
			Regexes []string `toml:"regexes"`
		} `toml:"allowlists"`
	} `toml:"rules"`
}

type rule struct {
	ID       string   `json:"id"`
	Pattern  string   `json:"pattern"`
	Keywords []string `json:"keywords"`
	Entropy  float64  `json:"entropy,omitempty"`
	Allowed  []string `json:"allowed,omitempty"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen GITLEAKS_TOML RULES_JSON")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	rules, err := convert(text)
	if err != nil {
		return err
	}
	out, err := json.MarshalIndent(rules, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(to, append(out, '\n'), 0o644)
}

// convert returns the rules for secrets with a recognisable form.
func convert(text []byte) ([]rule, error) {
	var list source
	if err := toml.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	var rules []rule
	for _, r := range list.Rules {
		_, out := leftOut[r.ID]
		if out || r.Regex == "" || len(r.Keywords) == 0 || strings.Contains(r.Regex, identifier) || r.SecretGroup > 1 {
			continue
		}
		kept := rule{
			ID: r.ID, Pattern: strings.ReplaceAll(r.Regex, terminator, ""), Keywords: lower(r.Keywords), Entropy: r.Entropy,
		}
		for _, a := range r.Allowlists {
			kept.Allowed = append(kept.Allowed, a.Regexes...)
		}
		if c, ok := changed[r.ID]; ok {
			kept.Keywords = c.Keywords
			if c.Pattern != "" {
				kept.Pattern = c.Pattern
			}
		}
		for _, pattern := range append(slices.Clone(kept.Allowed), kept.Pattern) {
			if _, err := regexp.Compile(pattern); err != nil {
				return nil, fmt.Errorf("rule %s: %w", r.ID, err)
			}
		}
		rules = append(rules, kept)
	}
	return rules, nil
}

func lower(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strings.ToLower(w)
	}
	return out
}
