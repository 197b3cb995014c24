// Package cage is `kaged cage`.
package cage

import (
	"github.com/spf13/cobra"

	"kaged.dev/services/kaged/internal/cli/kit"
)

func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("cage", "Show cages, and try their policies")
	cmd.Long = "Cages, without a daemon: show the rights of an agent, and try a policy before you give it to an agent."
	cmd.AddCommand(cageShow(a, p), cageExec(a, p))
	return cmd
}
