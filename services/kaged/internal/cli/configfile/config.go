// Package configfile is `kaged config`: it reads, checks and changes the operator's configuration.
package configfile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/version"
	"kaged.dev/services/kaged/internal/checkup"
	"kaged.dev/services/kaged/internal/cli/kit"
)

func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("config", "Check and change the operator's configuration")
	cmd.AddCommand(
		&cobra.Command{
			Use: "path", Short: "Print the path of the configuration", Args: kit.Nothing,
			RunE: func(*cobra.Command, []string) error { _, err := fmt.Fprintln(a.Stdout, p.Config); return err },
		},
		&cobra.Command{
			Use:   "check",
			Short: "Check the configuration",
			Long: "Reads the configuration as kaged does and prints its content. Invalid settings are errors; missing " +
				"pieces, such as an\n" +
				"unset API key, are warnings on stderr.",
			Args: kit.Nothing,
			RunE: func(*cobra.Command, []string) error { return checkConfig(a, p.Config.String()) },
		},
		&cobra.Command{
			Use:   "get KEY",
			Short: "Print a key of the configuration file",
			Long: "Prints the value of a key in the file: a string without quotes, any other value as JSON.\n" +
				"References to variables, such as ${NAME}, are not expanded. A key that is not in the file is " +
				"an\n" +
				"error; its default is in docs/reference/config.md.",
			Example: "  kaged config get models.smart-generalist\n  kaged config get limits",
			Args: func(cmd *cobra.Command, list []string) error {
				if len(list) != 1 {
					return kit.Misused(cmd, "`kaged config get` takes a key, not %s", kit.Count(len(list), "argument", "arguments"))
				}
				return nil
			},
			RunE: func(_ *cobra.Command, list []string) error { return getConfig(a, p.Config.String(), list[0]) },
		},
		&cobra.Command{
			Use:   "set KEY VALUE",
			Short: "Set a key in place, keeping comments and order",
			Long: "Writes the key into the configuration and leaves the rest unchanged. Refuses values that " +
				"would\n" +
				"make the file invalid; warns about names that are not defined yet, such as a provider.",
			Example: "  kaged config set models.smart-generalist anthropic:claude-opus-5-5\n  kaged config set " +
				"limits.max_steps 30\n" +
				"  kaged config set 'default_tools.\"shell.bash\".enabled' true",
			Args: func(cmd *cobra.Command, list []string) error {
				if len(list) != 2 {
					return kit.Misused(
						cmd,
						"`kaged config set` takes a key and a value, not %s",
						kit.Count(len(list), "argument", "arguments"),
					)
				}
				return nil
			},
			RunE: func(_ *cobra.Command, list []string) error { return setConfig(a, p.Config.String(), list[0], list[1]) },
		},
	)
	return cmd
}

// getConfig prints the value of a key.
func getConfig(a kit.App, path, key string) error {
	keyPath, err := config.Key(key)
	if err != nil {
		return kit.Exit(kit.ExitUsage, err)
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, fault.FileIO, "The configuration %s cannot be read.", path)
	}
	value, there, err := config.Get(path, data, keyPath)
	switch {
	case err != nil:
		return err
	case !there:
		return fault.New(
			fault.NotFound,
			"There is no key %s in %s; docs/reference/config.md of kaged has its default.",
			key,
			path,
		)
	}
	if text, ok := value.(string); ok {
		_, err = fmt.Fprintln(a.Stdout, text)
		return err
	}
	return kit.WriteJSON(a.Stdout, value)
}

// setConfig writes the value as TOML if the result is a valid configuration, and otherwise as a string, so that
// numbers, lists and texts can be typed without quotes. A value that makes a valid file invalid is a usage error.
func setConfig(a kit.App, path, key, value string) error {
	var doubtful []doubt
	err := config.Edit(path, func(data []byte) ([]byte, error) {
		var known []doubt
		before, broken := config.Parse(path, data)
		if broken == nil {
			known = doubts(a, before)
		}
		out, after, err := changed(a, path, data, key, value)
		switch {
		case err == nil:
			doubtful = slices.DeleteFunc(doubts(a, after), func(d doubt) bool {
				return slices.ContainsFunc(known, func(k doubt) bool { return k.about == d.about })
			})
			return out, nil
		case broken == nil:
			err = kit.Exit(kit.ExitUsage, err)
		}
		return nil, err
	})
	if err == nil {
		a.Warn(texts(doubtful))
	}
	return err
}

// changed returns a configuration with a key set, as text and decoded.
func changed(a kit.App, path string, data []byte, key, value string) ([]byte, *config.File, error) {
	keyPath, err := config.Key(key)
	if err != nil {
		return nil, nil, err
	}
	out, err := config.Set(data, keyPath, value)
	if err != nil {
		var asText error
		if out, asText = config.Set(data, keyPath, config.Quote(value)); asText == nil || !config.IsValue(value) {
			err = asText
		}
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := config.Parse(path, out)
	if err != nil {
		return nil, nil, err
	}
	return out, f, CheckServices(a, f)
}

func checkConfig(a kit.App, path string) error {
	f, err := config.Load(path)
	if err != nil {
		return err
	}
	if err := CheckServices(a, f); err != nil {
		return err
	}
	absent := ""
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		absent = " (the file is not there yet; `kaged init` makes it)"
	}
	_, err = fmt.Fprintf(a.Stdout, "%s: %s, %s%s\n",
		path, kit.Count(len(f.Models), "alias", "aliases"), kit.Count(len(f.Providers), "provider", "providers"), absent)
	a.Warn(texts(doubts(a, f)))
	return err
}

// CheckServices makes each service check its table. A module builds its service without starting it.
func CheckServices(a kit.App, f *config.File) error {
	path, err := config.Resolve(f.Path)
	if err != nil {
		return err
	}
	_, err = host.New(host.Options{
		File: f, ConfigPath: path, Log: slog.New(slog.DiscardHandler), Version: version.String(), Getenv: a.Getenv,
		Listen: config.DefaultListen, UIURL: f.UI.URL,
		Database: host.Database{OwnerURL: "postgres:///kaged"}, NATS: host.NATS{URL: "nats://127.0.0.1"},
	}, a.Modules...)
	return err
}

// doubt is a name in the configuration without a target: about identifies it, text explains it.
type doubt struct{ about, text string }

func texts(list []doubt) []string {
	out := make([]string, len(list))
	for i, d := range list {
		out[i] = d.text
	}
	return out
}

// doubts returns the names in a configuration without a target. In a kaged container without keys they are expected.
func doubts(a kit.App, f *config.File) []doubt {
	var list []doubt
	for _, alias := range slices.Sorted(maps.Keys(f.Models)) {
		for _, target := range f.Models[alias] {
			provider, _, _ := config.SplitTarget(target)
			if _, there := f.Providers[provider]; !there {
				list = append(list, doubt{"models." + alias + " " + provider, fmt.Sprintf(
					"models.%s goes to the provider %q, which is not configured (%s); %s",
					alias,
					provider,
					configured(f),
					providerFix(provider),
				)})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Providers)) {
		if _, missing := config.Expand(f.Providers[name].APIKey); len(missing) > 0 && !checkup.KeysElsewhere(a.Getenv) {
			list = append(list, doubt{"providers." + name + " " + missing[0], fmt.Sprintf(
				"providers.%s.api_key refers to ${%s}, which is not set here; %s",
				name,
				missing[0],
				checkup.MissingKey(a.Getenv, missing[0]),
			)})
		}
	}
	for _, key := range f.RawKeys() {
		list = append(list, doubt{key, kit.RawKey(f.Path, key)})
	}
	for _, d := range f.NotInForce() {
		list = append(list, doubt{d.Key, d.Message})
	}
	return list
}

// configured lists the providers of a configuration.
func configured(f *config.File) string {
	if len(f.Providers) == 0 {
		return "no provider is"
	}
	return "configured: " + strings.Join(slices.Sorted(maps.Keys(f.Providers)), ", ")
}

// providerFix returns the command that adds a provider.
func providerFix(name string) string {
	if slices.Contains(config.Drivers, name) {
		return fmt.Sprintf(
			"`kaged config set providers.%s.api_key '${NAME}'` adds it, with NAME the variable that holds the key",
			name,
		)
	}
	return fmt.Sprintf("`kaged config set providers.%s.driver DRIVER` adds it, with DRIVER one of %s "+
		"(openai-chat: any OpenAI-compatible server, e.g. Ollama, vLLM, llama.cpp)", kit.ShellQuote(name),
		strings.Join(config.Drivers, ", "))
}
