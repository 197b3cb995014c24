package checkup

import (
	"context"
	"strings"
)

// LanguageServer is the server of a language on this machine.
type LanguageServer struct {
	Lang string `json:"lang"`
	// Command is the command with an installed program, or the first command of the language.
	Command string `json:"command"`
	// Program is its path, empty for a missing program.
	Program string `json:"program,omitempty"`
	// InCage is true if a cage shows the program; otherwise CageReason is the reason.
	InCage     bool   `json:"in_cage"`
	CageReason string `json:"cage_reason,omitempty"`
	// Install is the command that installs the server.
	Install string `json:"install"`
}

// Fix returns the way to show a program in cages, "" if they show it already.
func (s LanguageServer) Fix() string {
	if s.Program == "" || s.InCage {
		return ""
	}
	return "install it below /usr/local or /opt, or name its folder in read of [lsp.servers." + s.Lang + "] in local.toml"
}

// languageServers finds language servers. If the configuration prevents this, the check of the configuration reports
// it.
func (m Machine) languageServers(ctx context.Context) []LanguageServer {
	list := []LanguageServer{}
	if m.LanguageServers == nil || m.Container == ControlPlane {
		return list
	}
	found, _ := m.LanguageServers(ctx)
	for _, s := range found {
		list = append(list, LanguageServer{
			Lang: s.GetLang(), Command: strings.Join(s.GetCommand(), " "), Program: s.GetProgram(),
			InCage: s.GetCagedProgram() != "", CageReason: s.GetCagedReason(), Install: s.GetInstall(),
		})
	}
	return list
}
