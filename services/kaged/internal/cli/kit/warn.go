package kit

import (
	"fmt"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/termtext"
)

// WarnPersistent says of a policy, nil for no cage, that a cage of one command's own keeps no home.
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

// WarnRawKeys names on stderr the credentials that stand in the configuration themselves. It ignores an unreadable
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

// RawKey says that a key of the configuration holds a credential, without repeating it.
func RawKey(path, key string) string {
	return fmt.Sprintf(
		"%s in %s is the API key itself; keep it in the environment and refer to it as \"${NAME}\"",
		key,
		path,
	)
}

// SayFound reports files that a command left in the writable folders of its cage.
func (a App) SayFound(text string) {
	fmt.Fprintln(a.Stderr, "kaged: left in the cage's folders:", Brief(text, 400))
}
