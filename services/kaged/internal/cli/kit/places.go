package kit

import (
	"fmt"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ownpath"
)

// Places are the flags every command has, and where they lead, which is found once.
type Places struct {
	ConfigFlag, DataDirFlag string
	Config, DataDir         ownpath.Path
}

// Given resolves the places. It refuses one that is named and empty, as from a variable that is not set: it is not
// meant to be the default.
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
