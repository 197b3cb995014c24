package sessionmanager

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The README names every key of the configuration.
func TestTheREADMETellsEveryKey(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if key := f.Tag.Get("toml"); key != "" && !strings.Contains(string(text), "`"+key+"`") {
			t.Errorf("README.md does not tell of %s", key)
		}
	}
}
