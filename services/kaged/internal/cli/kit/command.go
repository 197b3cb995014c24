package kit

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func Usage(format string, args ...any) error {
	return &ExitError{ExitUsage, fmt.Errorf(format, args...)}
}

// Misused returns the error for invalid arguments of a command, with the command's help.
func Misused(cmd *cobra.Command, format string, args ...any) error {
	return Usage("%s; see `%s --help`", fmt.Sprintf(format, args...), cmd.CommandPath())
}

// Group returns a command that only has subcommands.
func Group(name, short string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: Known, RunE: Help}
}

func Help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// Known refuses an unknown command of a group, and names similar ones.
func Known(cmd *cobra.Command, list []string) error {
	if len(list) == 0 {
		return nil
	}
	meant := ""
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if s := cmd.SuggestionsFor(list[0]); len(s) > 0 {
		meant = fmt.Sprintf(", perhaps you mean `%s %s`", cmd.CommandPath(), s[0])
	}
	return Misused(cmd, "there is no command `%s %s`%s", cmd.CommandPath(), list[0], meant)
}

// Takes refuses fewer arguments than least and more than most, unless most is negative. The error has the names in the
// command's usage.
func Takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, list []string) error {
		if len(list) >= least && (most < 0 || len(list) <= most) {
			return nil
		}
		_, names, _ := strings.Cut(cmd.Use, " ")
		return Misused(cmd, "`%s` takes %s", cmd.CommandPath(), names)
	}
}

// Nothing refuses arguments.
func Nothing(cmd *cobra.Command, list []string) error {
	if len(list) > 0 {
		return Misused(cmd, "`%s` takes no argument, such as %q", cmd.CommandPath(), list[0])
	}
	return nil
}
