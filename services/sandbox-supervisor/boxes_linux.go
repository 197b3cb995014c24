package sandboxsupervisor

import (
	"strings"

	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
)

// newBoxes returns this machine's implementation of boxes.
func newBoxes(cfg Config, deps Deps) boxes {
	dir := ""
	if !deps.DataDir.IsZero() {
		dir = deps.DataDir.Join("cages")
	}
	cgroups := ""
	if cfg.Cgroups == "auto" {
		cgroups = "kaged-" + strings.ToLower(deps.Node) + "-cages-"
	}
	return box.New(box.Options{
		Cgroups: cgroups,
		Log:     deps.Log, Name: deps.Node + "-" + deps.Instance + "-cages",
		UID: cfg.CageUID, System: cfg.SystemPaths, TmpBytes: cfg.TmpBytes, Dir: dir, Hidden: deps.Forbidden,
		SpareIdle: cfg.CageSpare.D(),
		Egress: cfg.egress(
			deps.Log,
		),
		StartTimeout: cfg.StartTimeout.D(), KillTimeout: cfg.KillTimeout.D(), DrainWait: cfg.DrainWait.D(),
	})
}
