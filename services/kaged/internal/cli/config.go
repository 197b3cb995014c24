package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/version"
)

func (a App) configCommand(p *places) *cobra.Command {
	cmd := group("config", "Check and change the operator's configuration")
	cmd.AddCommand(
		&cobra.Command{
			Use: "path", Short: "Print where the configuration is", Args: nothing,
			RunE: func(*cobra.Command, []string) error { fmt.Fprintln(a.Stdout, p.config); return nil },
		},
		&cobra.Command{
			Use:   "check",
			Short: "Say whether the configuration can be used",
			Long: "Reads the configuration as kaged does and says what is in it. What it cannot be used with is an error; what\n" +
				"is not there yet, such as a key in this environment, is a warning on stderr.",
			Args: nothing,
			RunE: func(*cobra.Command, []string) error { return a.checkConfig(p.config) },
		},
		&cobra.Command{
			Use:   "set KEY VALUE",
			Short: "Set a key in place, keeping comments and order",
			Example: "  kaged config set models.smart-generalist anthropic:claude-opus-5-5\n  kaged config set limits.max_steps 30\n" +
				"  kaged config set 'default_tools.\"shell.bash\".enabled' true",
			Args: func(cmd *cobra.Command, list []string) error {
				if len(list) != 2 {
					return misused(cmd, "`kaged config set` takes a key and a value, not %s", count(len(list), "argument", "arguments"))
				}
				return nil
			},
			RunE: func(_ *cobra.Command, list []string) error { return a.setConfig(p.config, list[0], list[1]) },
		},
	)
	return cmd
}

// setConfig writes the value as it is where that makes a valid configuration, and as a string where it does not, so that
// numbers, lists and texts can all be typed plainly.
func (a App) setConfig(path, key, value string) error {
	return config.Edit(path, func(data []byte) ([]byte, error) {
		keyPath, err := config.Key(key)
		if err != nil {
			return nil, err
		}
		out, err := config.Set(data, keyPath, value)
		if err != nil {
			var asText error
			if out, asText = config.Set(data, keyPath, config.Quote(value)); asText == nil || !config.IsValue(value) {
				err = asText
			}
		}
		if err != nil {
			return nil, err
		}
		f, err := config.Parse(path, out)
		if err != nil {
			return nil, err
		}
		return out, a.checkServices(f)
	})
}

func (a App) checkConfig(path string) error {
	f, err := config.Load(path)
	if err != nil {
		return err
	}
	if err := a.checkServices(f); err != nil {
		return err
	}
	absent := ""
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		absent = " (the file is not there yet; `kaged init` makes it)"
	}
	fmt.Fprintf(a.Stdout, "%s: %s, %s%s\n", path, count(len(f.Models), "alias", "aliases"), count(len(f.Providers), "provider", "providers"), absent)
	for _, w := range doubts(f) {
		fmt.Fprintln(a.Stderr, "kaged: warning:", w)
	}
	return nil
}

// checkServices has each service read its table. A module builds its service without starting anything.
func (a App) checkServices(f *config.File) error {
	_, err := host.New(host.Options{
		File: f, ConfigPath: f.Path, Log: slog.New(slog.DiscardHandler), Version: version.String(), Getenv: a.Getenv,
		Listen: config.DefaultListen, UIURL: f.UI.URL,
		Database: host.Database{OwnerURL: "postgres:///kaged"}, NATS: host.NATS{URL: "nats://127.0.0.1"},
	}, a.Modules...)
	return err
}

// doubts are what a configuration names and does not have.
func doubts(f *config.File) []string {
	var list []string
	for _, alias := range slices.Sorted(maps.Keys(f.Models)) {
		for _, target := range f.Models[alias] {
			provider, _, _ := config.SplitTarget(target)
			if _, there := f.Providers[provider]; !there {
				list = append(list, fmt.Sprintf("models.%s goes to the provider %q, which is not configured; add [providers.%s]", alias, provider, provider))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Providers)) {
		if _, missing := config.Expand(f.Providers[name].APIKey); len(missing) > 0 {
			list = append(list, fmt.Sprintf("providers.%s.api_key refers to ${%s}, which is not set here; it must be where `kaged up` or `kaged run` runs", name, missing[0]))
		}
	}
	for _, key := range f.RawKeys() {
		list = append(list, rawKey(f.Path, key))
	}
	return list
}

// rawKey says that a key of the configuration holds a credential, without repeating it.
func rawKey(path, key string) string {
	return fmt.Sprintf("%s in %s is the API key itself; keep it in the environment and refer to it as \"${NAME}\"", key, path)
}

// warnRawKeys says on stderr which credentials stand in the configuration themselves. A configuration that cannot be read is
// for what comes next to refuse.
func (a App) warnRawKeys(path string) {
	f, err := config.Load(path)
	if err != nil {
		return
	}
	for _, key := range f.RawKeys() {
		fmt.Fprintln(a.Stderr, "kaged: warning:", rawKey(path, key))
	}
}

// count is a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
