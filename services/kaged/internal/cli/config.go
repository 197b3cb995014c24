package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

func (a App) configCommand(p *places) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show and change the operator's configuration", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "path", Short: "Print where the configuration is", Args: args(cobra.NoArgs),
			RunE: func(*cobra.Command, []string) error { fmt.Fprintln(a.Stdout, p.config); return nil },
		},
		&cobra.Command{
			Use:   "check",
			Short: "Say whether the configuration can be used",
			Args:  args(cobra.NoArgs),
			RunE: func(*cobra.Command, []string) error {
				f, err := config.Load(p.config)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Stdout, "%s: %d aliases, %d providers\n", p.config, len(f.Models), len(f.Providers))
				return nil
			},
		},
		&cobra.Command{
			Use:     "set KEY VALUE",
			Short:   "Set a key in place, keeping comments and order",
			Example: "  kaged config set models.smart-generalist anthropic:claude-opus-5-5\n  kaged config set limits.max_steps 30",
			Args:    args(cobra.ExactArgs(2)),
			RunE:    func(_ *cobra.Command, list []string) error { return setConfig(p.config, list[0], list[1]) },
		},
	)
	return cmd
}

// setConfig writes the value as it is where that makes a valid configuration, and as a string where it does not, so that
// numbers, lists and texts can all be typed plainly.
func setConfig(path, key, value string) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, fault.BadRequest, "The configuration %s cannot be read.", path)
	}
	keyPath := strings.Split(key, ".")
	out, err := config.Set(data, keyPath, value)
	if err != nil {
		out, err = config.Set(data, keyPath, config.Quote(value))
	}
	if err != nil {
		return err
	}
	return config.Write(path, out)
}
