package kit

import (
	"fmt"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ownpath"
)

// Places are the flags of every command that name paths, and the paths, which are resolved once.
type Places struct {
	ConfigFlag, DataDirFlag string
	Config, DataDir         ownpath.Path
}

// Given resolves the paths. It refuses an empty path given by a flag or variable, for example from a variable that is
// not set, because the default is probably not intended.
func (p *Places) Given(cmd *cobra.Command, _ []string) (err error) {
	for name, value := range map[string]string{"config": p.ConfigFlag, "data-dir": p.DataDirFlag} {
		if value == "" && cmd.Flags().Changed(name) {
			return cmd.FlagErrorFunc()(cmd, fmt.Errorf("--%s is empty", name))
		}
	}
	if p.DataDirFlag == "" {
		return Misused(cmd, "%s", config.NoDataDir)
	}
	if p.DataDir, err = config.Resolve(p.DataDirFlag); err == nil && p.ConfigFlag != "" {
		p.Config, err = config.Resolve(p.ConfigFlag)
	}
	if err != nil {
		return Misused(cmd, "%s", fault.From(err).Msg)
	}
	return nil
}
