package kit

import (
	"fmt"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/termtext"
)

// WarnPersistent warns that the cage of a single command keeps no home folder, if policy requests one; nil means no
// cage.
func (a App) WarnPersistent(policy *dsl.Cage) {
	if policy != nil && policy.State == "persistent" {
		fmt.Fprintln(a.Stderr, "kaged: state: persistent has no effect here: the home is gone with this cage")
	}
}

func (a App) Warn(texts []string) {
	for _, text := range texts {
		fmt.Fprintln(a.Stderr, "kaged: warning:", termtext.Lines(text))
	}
}

// WarnRawKeys names on stderr the credentials that are in the configuration itself. It ignores an unreadable
// configuration, which the next step refuses.
func (a App) WarnRawKeys(path string) {
	f, err := config.Load(path)
	if err != nil {
		return
	}
	for _, key := range f.RawKeys() {
		fmt.Fprintln(a.Stderr, "kaged: warning:", RawKey(path, key))
	}
}

// RawKey returns the sentence for a key of the configuration with a credential, without repeating the credential.
func RawKey(path, key string) string {
	return fmt.Sprintf(
		"%s in %s is the API key itself; keep it in the environment and refer to it as \"${NAME}\"",
		key,
		path,
	)
}

// SayFound prints the files that a command left in the writable folders of its cage.
func (a App) SayFound(text string) {
	fmt.Fprintln(a.Stderr, "kaged: left in the cage's folders:", Brief(text, 400))
}
