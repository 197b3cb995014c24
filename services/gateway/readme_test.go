package gateway_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"kaged.dev/services/gateway"
)

// The README mentions every key of the configuration.
func TestTheREADMETellsEveryKey(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[gateway.Config]()) {
		if key := f.Tag.Get("toml"); !strings.Contains(string(text), "`"+key+"`") {
			t.Errorf("README.md does not mention %s", key)
		}
	}
}
