// Package tools is `kaged tools` and the reference of the tools.
package tools

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/ownpath"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/workbench"
)

// Flags are the common flags of the tools commands.
type Flags struct{ Project, agent string }

func (f *Flags) add(cmd *cobra.Command, agent string) {
	cmd.Flags().StringVar(&f.Project, "project", ".", kit.ProjectUsage)
	cmd.Flags().StringVar(&f.agent, "agent", "", agent)
}

func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("tools", "List the tools of agents, and call them yourself")
	cmd.Long = "The tools of agents, without a daemon: list them, with the reason why an agent has one, and call them."
	cmd.AddCommand(toolsList(a, p), toolsCall(a, p))
	return cmd
}

// Bench opens a bench on the project of the flags. dataDir is the zero Path for commands that change no file.
func Bench(a kit.App, p *kit.Places, f Flags, dataDir ownpath.Path) (*workbench.Bench, error) {
	root, err := filepath.Abs(f.Project)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return nil, kit.NoFolder(f.Project)
	}
	return workbench.Open(workbench.Options{
		ConfigPath: p.Config, DataDir: dataDir, Root: root, Getenv: a.Getenv, Stderr: a.Stderr, Modules: a.Modules,
	})
}

// infrastructure gives an error the exit code of failures outside tools.
func infrastructure(err error) error {
	if err == nil || kit.CodeOf(err) == kit.ExitCancelled {
		return err
	}
	return kit.Exit(kit.ExitInfrastructure, fmt.Errorf("the call was not completed: %s", kit.Sentence(err)))
}

// notStarted returns the error of a command that ran no call. An invalid request keeps its code.
func notStarted(err error) error {
	if kit.CodeOf(err) == kit.ExitUsage {
		return err
	}
	return infrastructure(err)
}
