package kit

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kaged.dev/pkg/spelling"
)

// FlagSentence explains an invalid flag in the words of the command line.
func FlagSentence(cmd *cobra.Command, err error) string {
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	var syntax *pflag.InvalidSyntaxError
	switch {
	case errors.As(err, &value):
		return fmt.Sprintf("--%s is %q and must be %s", value.GetFlag().Name, value.GetValue(), wantedOf(value))
	case errors.As(err, &missing):
		return fmt.Sprintf("--%s needs a value", missing.GetFlag().Name)
	case errors.As(err, &unknown):
		return unknownFlag(cmd.Flags(), unknown)
	case errors.As(err, &syntax):
		return fmt.Sprintf("%s is no flag", syntax.GetSpecifiedFlag())
	}
	return err.Error()
}

// UrlFlag refuses an invalid --url; an empty one counts as absent.
func UrlFlag(cmd *cobra.Command, value string) error {
	if value == "" {
		return nil
	}
	if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return Misused(cmd, "--url is %q and must be of the form http://HOST:PORT", value)
	}
	return nil
}

// ListenFlag refuses an invalid address to listen at.
func ListenFlag(cmd *cobra.Command, value string) error {
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(cmd.Context(), "tcp", port)
	}
	if err != nil {
		return Misused(cmd, "--listen is %q and must be of the form HOST:PORT, with a port from 0 to 65535", value)
	}
	return nil
}

func wantedOf(err *pflag.InvalidValueError) string {
	switch kind := err.GetFlag().Value.Type(); {
	case kind == "bool":
		return "true or false, or have no value, which is true"
	case errors.Is(err, strconv.ErrRange):
		return "a smaller number"
	case kind == "int":
		return "a whole number"
	default:
		return "of the kind " + kind
	}
}

// unknownFlag returns the sentence for an unknown flag, with the flag that may have been meant.
func unknownFlag(flags *pflag.FlagSet, err *pflag.NotExistError) string {
	asked, name := "--"+err.GetSpecifiedName(), err.GetSpecifiedName()
	if letters := err.GetSpecifiedShortnames(); letters != "" {
		asked = "-" + letters
		name, _, _ = strings.Cut(letters, "=")
	}
	best, least := "", 3 // with more than two edits it is another word
	flags.VisitAll(func(f *pflag.Flag) {
		if d := spelling.Distance(name, f.Name); d < least && d < len(f.Name)-1 {
			best, least = f.Name, d
		}
	})
	if best != "" {
		return fmt.Sprintf("there is no flag %s, perhaps you mean --%s", asked, best)
	}
	return "there is no flag " + asked
}
