package tools

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed project_skill.md
var projectSkillText string

// The limits of skills: the size of one file in bytes, the number of listed skills, and the size of a name and of a
// description in bytes.
const (
	maxSkill       = 256 << 10
	maxSkills      = 200
	maxSkillName   = 64
	maxDescription = 1024
)

type skillParams struct {
	Action string `json:"action" enum:"list,read" doc:"What to do."`
	Name   string `json:"name,omitempty" doc:"For read: the skill."`
}

type skillResult struct {
	Skills  *[]skillRow `json:"skills,omitempty" doc:"Of list, by name."`
	Name    string      `json:"name,omitempty"`
	Path    string      `json:"path,omitempty"`
	Content string      `json:"content,omitempty" doc:"Of read."`
}

type skillRow struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Path        string `json:"path"`
}

func projectSkill(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[skillParams, skillResult]{
		Name: "project.skill", Description: projectSkillText, Category: tool.Read, Parallel: true,
		Requires: []tool.Requirement{tool.SearchPath("path", tool.CallerPath)},
		// Skills that the cage does not grant are left out.
		Needs: func(*skillParams) []tool.Requirement { return []tool.Requirement{tool.SearchPath("path", ".")} },
		Run:   d.useSkills,
	})
}

// useSkills lists the skills of a project, or returns one.
func (d Deps) useSkills(ctx context.Context, call *tool.Call, p *skillParams) (skillResult, error) {
	if p.Action == "read" {
		if p.Name == "" {
			return skillResult{}, lacking("name", p.Action)
		}
		if !skillName(p.Name) {
			return skillResult{}, noSkill(p.Name)
		}
		for _, folder := range dsl.SkillFolders {
			content, at, err := readSkill(call, folder, p.Name)
			if err == nil {
				return skillResult{Name: p.Name, Path: at.Show, Content: content}, nil
			}
			if !errors.Is(err, fault.FileNotFound) {
				return skillResult{}, err
			}
		}
		return skillResult{}, noSkill(p.Name)
	}
	rows, seen := []skillRow{}, map[string]bool{}
	for _, folder := range dsl.SkillFolders {
		for _, name := range skillsIn(call, folder) {
			if seen[name] || len(rows) == maxSkills || ctx.Err() != nil {
				continue
			}
			content, at, err := readSkill(call, folder, name)
			if err != nil {
				continue // the folder has no skill that the caller may read
			}
			seen[name] = true
			rows = append(rows, skillRow{name, described(content), at.Show})
		}
	}
	slices.SortFunc(rows, func(a, b skillRow) int { return strings.Compare(a.Name, b.Name) })
	return skillResult{Skills: &rows}, ctx.Err()
}

func noSkill(name string) error {
	return fault.New(fault.FileNotFound, "The project has no skill %q; list names them.", name).With("name", name)
}

// skillName reports whether a name is valid for a skill's folder.
func skillName(name string) bool {
	return len(name) <= maxSkillName && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, "/\\\x00")
}

// skillsIn returns the names of the folders in a folder of skills.
func skillsIn(call *tool.Call, folder string) (names []string) {
	at, err := call.Space.Resolve("path", folder)
	if err != nil {
		return nil
	}
	f, info, err := at.Open()
	if err != nil {
		return nil
	}
	defer f.Close()
	if !info.IsDir() {
		return nil
	}
	entries, err := call.Space.Entries(at, f)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() && skillName(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// readSkill returns the text of a skill. It fails with file_not_found for a missing skill, and for a skill that the
// caller may not read.
func readSkill(call *tool.Call, folder, name string) (string, paths.Path, error) {
	at, err := call.Space.Resolve("path", path.Join(folder, name, "SKILL.md"))
	if err != nil {
		return "", at, err
	}
	if !call.Access.Allows(at.Abs(), false) {
		return "", at, noSkill(name)
	}
	f, info, err := at.OpenFile()
	if err != nil {
		return "", at, err
	}
	defer f.Close()
	if info.Size() > maxSkill {
		return "", at, tooLarge(at, maxSkill)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSkill+1))
	if err != nil {
		return "", at, at.Failure("read", err)
	}
	return strings.ToValidUTF8(string(data), "\uFFFD"), at, nil
}

// described returns the description in the front matter of a skill, or else the skill's first line.
func described(content string) string {
	first := ""
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "description:"); ok {
			first = strings.Trim(strings.TrimSpace(text), `"'`)
			break
		}
		if text := strings.TrimLeft(line, "#- "); first == "" && text != "" && !strings.HasPrefix(text, "name:") {
			first = text
		}
	}
	return strings.ToValidUTF8(clip.Bytes(first, maxDescription), "")
}
