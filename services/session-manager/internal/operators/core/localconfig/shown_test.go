package localconfig_test

import (
	"fmt"
	"strings"
	"testing"
)

// People can read the targets of aliases and the providers, without their secrets.
func TestShownWithoutSecrets(t *testing.T) {
	t.Setenv("KAGED_TEST_KEY", "s3cret")
	_, source := file(t, `
[models]
smart = ["anthropic:opus", "gone:x"]
[providers.anthropic]
api_key = "${KAGED_TEST_KEY}"
headers = { X-Team = "s3cret" }
[providers.box]
driver = "openai-chat"
base_url = "http://ada:s3cret@127.0.0.1:1/v1?key=s3cret#s3cret"
`)
	cfg := read(t, source)
	shown := fmt.Sprintf("%+v", cfg.Providers())
	want := "[{Name:anthropic Driver:anthropic BaseURL: HasKey:true Headers:[X-Team] Unusable:<nil>} " +
		"{Name:box Driver:openai-chat BaseURL:http://127.0.0.1:1/v1 HasKey:false Headers:[] Unusable:<nil>}]"
	if shown != want {
		t.Errorf("got %s, want %s", shown, want)
	}
	aliases := cfg.Aliases()
	if len(aliases) != 1 || len(aliases[0].Targets) != 2 || aliases[0].Targets[0].Unusable != nil ||
		!strings.Contains(aliases[0].Targets[1].Unusable.Msg, "not configured") {
		t.Errorf("%+v", aliases)
	}
}
