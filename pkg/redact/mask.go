package redact

import (
	"regexp"
	"strings"
)

const masked = "[masked]"

// secret is a recognisable form of secret. hint is text that every match contains, so that the expression runs only if
// it can match.
type secret struct {
	hints   []string
	pattern *regexp.Regexp
	with    string
}

var secrets = []secret{
	{
		[]string{"PRIVATE KEY-----"},
		regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), masked,
	},
	{[]string{"sk-", "sk_live_", "rk_live_"}, regexp.MustCompile(`\b(sk-|sk_live_|rk_live_)[A-Za-z0-9_-]{16,}`), masked},
	{
		[]string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"},
		regexp.MustCompile(`\b(gh[pousr]_|github_pat_|glpat-)[A-Za-z0-9_-]{16,}`), masked,
	},
	{[]string{"AKIA", "ASIA"}, regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`), masked},
	{[]string{"AIza"}, regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{30,}`), masked},
	{[]string{"xox"}, regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`), masked},
	{[]string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), masked},
	{[]string{"earer ", "asic "}, regexp.MustCompile(`\b([Bb]earer|[Bb]asic)\s+[A-Za-z0-9._~+/=-]{8,}`), "$1 " + masked},
	{[]string{"://"}, regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`), "${1}" + masked + "@"},
	{
		[]string{"="},
		regexp.MustCompile(
			`(?i)(\b[A-Z0-9_]*(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|CREDENTIAL)[A-Z0-9_]*=)("[^"]*"|'[^']*'|[^\s;&|"']+)`,
		), "${1}" + masked,
	},
}

// Mask replaces likely secrets: keys of known providers, private keys, bearer tokens, passwords in URLs, and
// assignments to names of secrets. It is the second defence; the first is that tools do not get secrets.
func Mask(text string) string {
	for _, s := range secrets {
		for _, hint := range s.hints {
			if strings.Contains(text, hint) {
				text = s.pattern.ReplaceAllString(text, s.with)
				break
			}
		}
	}
	return text
}
