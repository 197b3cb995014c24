package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kaged.dev/services/kaged/internal/cli/kit"
)

//go:generate go run ./gen

// WriteReference writes the reference page of the command and all its subcommands.
func WriteReference(w io.Writer) {
	a := kit.App{Getenv: func(name string) string {
		if name == "HOME" {
			return "~"
		}
		return ""
	}}
	fmt.Fprint(w, "# The kaged command\n\nGenerated from the command itself.\n\n"+
		"stdout belongs to results; progress, logs and errors go to stderr.\n\n```\n"+kit.ExitCodes+"```\n")
	writeCommand(w, root(a))
}

func writeCommand(w io.Writer, cmd *cobra.Command) {
	if cmd.Hidden || cmd.Name() == "help" {
		return
	}
	fmt.Fprintf(w, "\n## %s\n\n%s.\n", cmd.CommandPath(), cmd.Short)
	if long := strings.TrimSuffix(cmd.Long, "\n\n"+kit.ExitCodes); long != "" {
		fmt.Fprintf(w, "\n%s\n", long)
	}
	if cmd.Runnable() && !cmd.HasSubCommands() {
		fmt.Fprintf(w, "\n```\n%s\n```\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\n```sh\n%s\n```\n", strings.ReplaceAll(cmd.Example, "  ", ""))
	}
	writeFlags(w, cmd)
	for _, sub := range cmd.Commands() {
		writeCommand(w, sub)
	}
}

func writeFlags(w io.Writer, cmd *cobra.Command) {
	flags := cmd.NonInheritedFlags()
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprint(w, "\n| flag | default | |\n|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		// These paths differ between users; the page explains them in words.
		def := map[string]string{"config": "see below", "data-dir": "see below"}[f.Name]
		if def == "" && f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
			def = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(w, "| `--%s` | %s | %s |\n", f.Name, def, f.Usage)
	})
	if cmd.PersistentFlags().HasAvailableFlags() {
		fmt.Fprint(
			w,
			"\n"+
				"The configuration is `/etc/kaged/local.toml` for root, else `kaged/local.toml` under\n"+
				"`$XDG_CONFIG_HOME` (`~/.config`). The data directory is `/var/lib/kaged` for root, else "+
				"`kaged`\n"+
				"under `$XDG_DATA_HOME` (`~/.local/share`). Every command accepts these two flags. A flag "+
				"overrides\n"+
				"its variable, a variable the file, and the file the default.\n",
		)
	}
}
