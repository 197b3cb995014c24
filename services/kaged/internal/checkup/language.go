package checkup

import (
	"context"
	"strings"
)

// LanguageServer is the server of a language, as far as this machine has it.
type LanguageServer struct {
	Lang string `json:"lang"`
	// Command is the one with an installed program, or the first of the language.
	Command string `json:"command"`
	// Program is its path, empty for a missing program.
	Program string `json:"program,omitempty"`
	// InCage says that a cage shows it, CageReason why not.
	InCage     bool   `json:"in_cage"`
	CageReason string `json:"cage_reason,omitempty"`
	// Install is the command that installs it.
	Install string `json:"install"`
}

// Fix says how a program comes into cages, "" for one that is there already.
func (s LanguageServer) Fix() string {
	if s.Program == "" || s.InCage {
		return ""
	}
	return "install it below /usr/local or /opt, or name its folder in read of [lsp.servers." + s.Lang + "] in local.toml"
}

// languageServers looks for language servers. The check of the configuration tells of one that keeps them from being
// found.
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
