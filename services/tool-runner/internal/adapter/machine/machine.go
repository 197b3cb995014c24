// Package machine checks the equipment for agents on the workspace's machine.
package machine

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"kaged.dev/pkg/fault"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Machine asks the pools and the supervisor of the workspace.
type Machine struct {
	sandbox sandboxsupervisorv1.SandboxServiceClient
	lsp     lsppoolv1.LSPPoolServiceClient
}

// New returns a Machine.
func New(sandbox sandboxsupervisorv1.SandboxServiceClient, lsp lsppoolv1.LSPPoolServiceClient) *Machine {
	return &Machine{sandbox, lsp}
}

// Examine checks cages, language servers and git. A service that does not answer gives a check with that result.
func (m *Machine) Examine(
	ctx context.Context,
) (*commonv1.CageReport, []*commonv1.LanguageServerReport, []*commonv1.MachineCheck) {
	servers, check := m.languageServers(ctx)
	checks := []*commonv1.MachineCheck{git()}
	if check != nil {
		checks = append(checks, check)
	}
	return m.cages(ctx), servers, checks
}

func (m *Machine) cages(ctx context.Context) *commonv1.CageReport {
	found, err := m.sandbox.ProbeCages(ctx, &sandboxsupervisorv1.ProbeCagesRequest{})
	if err != nil {
		return &commonv1.CageReport{Unavailable: fault.From(err).Msg}
	}
	report := &commonv1.CageReport{Tier: found.GetTier(), Unavailable: found.GetUnavailable()}
	for _, l := range found.GetLayers() {
		report.Layers = append(report.Layers, &commonv1.CageLayerReport{
			Name: l.GetName(), State: l.GetState(), By: l.GetBy(), Reason: l.GetReason(), Fix: l.GetFix(),
		})
	}
	return report
}

func (m *Machine) languageServers(ctx context.Context) ([]*commonv1.LanguageServerReport, *commonv1.MachineCheck) {
	found, err := m.lsp.FindServers(ctx, &lsppoolv1.FindServersRequest{})
	if err != nil {
		return nil, &commonv1.MachineCheck{Name: "language servers", State: "warning", Detail: fault.From(err).Msg}
	}
	var list []*commonv1.LanguageServerReport
	for _, s := range found.GetServers() {
		list = append(list, &commonv1.LanguageServerReport{
			Lang: s.GetLang(), Command: strings.Join(s.GetCommand(), " "), Program: s.GetProgram(),
			InCage: s.GetCagedProgram() != "", CageReason: s.GetCagedReason(), Install: s.GetInstall(),
		})
	}
	return list, nil
}

// git checks for git, which kaged does not need but agents usually do.
func git() *commonv1.MachineCheck {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, "git")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return &commonv1.MachineCheck{Name: "git", State: "ok", Detail: path}
		}
	}
	return &commonv1.MachineCheck{
		Name: "git", State: "optional", Detail: "not installed; agents that work in repositories will miss it",
		Fix: "sudo apt-get install -y git",
	}
}
