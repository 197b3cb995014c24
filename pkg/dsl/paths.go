package dsl

import (
	"path"
	"strings"
)

// InstructionsPath stands for the project's instructions among its prompts: AGENTS.md with its imports and those of the
// folders above. The files may be missing. It differs from every prompt path, since those do not begin with a dot.
const InstructionsPath = "./AGENTS.md"

// rootOf returns the folder of the project of a project file, relative to the root project.
func rootOf(file string) string {
	dir := path.Dir(path.Dir(file))
	if dir == "." {
		return ""
	}
	return dir
}

// promptPath returns the file of a validated prompt path, relative to the root project; root is the folder of the
// project file with that path.
func promptPath(p, root string) string {
	p = strings.TrimPrefix(strings.TrimPrefix(p, "project:/"), "./")
	return path.Join(root, p)
}

// referencePath returns the folder of a validated reference, relative to the root project, and whether it is inside.
func referencePath(p, root string) (string, bool) {
	joined := path.Join("/", root, strings.TrimPrefix(p, "project:/"))
	if strings.Count(p, "../") > depthOf(root) {
		return "", false
	}
	return strings.TrimPrefix(joined, "/"), true
}

func depthOf(root string) int {
	if root == "" {
		return 0
	}
	return strings.Count(root, "/") + 1
}

// parentPath returns the tree path around a tree path, "" at the root.
func parentPath(p string) string {
	if strings.HasSuffix(p, "]") {
		if i := strings.LastIndexByte(p, '['); i >= 0 {
			return p[:i]
		}
	}
	if i := strings.LastIndexByte(p, '.'); i >= 0 {
		return p[:i]
	}
	return ""
}
