package tool

// Kind is the subject of a requirement.
type Kind string

// The four kinds.
const (
	FS         Kind = "fs"
	Seccomp    Kind = "seccomp"
	Net        Kind = "net"
	Capability Kind = "capability"
)

// Mode is the kind of access to a path.
type Mode string

// The modes.
const (
	ReadOnly  Mode = "ro"
	ReadWrite Mode = "rw"
)

// CallerPath stands for a path that the caller names, in requirements that do not belong to a particular call.
const CallerPath = "caller"

// Requirement is a right that a call needs.
type Requirement struct {
	Kind Kind
	// Mode and Path are of kind fs. Path is in the caller's form. Field is the parameter with the path.
	Mode  Mode
	Path  string
	Field string
	// Part is true if it is enough that a part of the path is granted. The tool itself leaves out the rest.
	Part bool
	// Alone is true if no other call may change the path at the same time.
	Alone bool
	// Tree is true if the call changes the file at the path, or files below it that only the tool can determine. The tool
	// holds each file while it changes it, and leaves out system paths below the path.
	Tree bool
	// Name is the profile, the "host:port" or the capability, depending on the kind.
	Name string
}

// ReadPath requires that the caller may read a path.
func ReadPath(field, path string) Requirement {
	return Requirement{Kind: FS, Mode: ReadOnly, Path: path, Field: field}
}

// SearchPath requires that the caller may read some path at or below path.
func SearchPath(field, path string) Requirement {
	return Requirement{Kind: FS, Mode: ReadOnly, Path: path, Field: field, Part: true}
}

// ChangePath requires that the caller may write a path, and excludes other writers during the call.
func ChangePath(field, path string) Requirement {
	return Requirement{Kind: FS, Mode: ReadWrite, Path: path, Field: field, Alone: true}
}

// ChangeBelow requires that the caller may write a path and the paths below it. The tool changes some of them.
func ChangeBelow(field, path string) Requirement {
	return Requirement{Kind: FS, Mode: ReadWrite, Path: path, Field: field, Tree: true}
}

// WorkIn requires that the caller may write below a path. The path is not held.
func WorkIn(field, path string) Requirement {
	return Requirement{Kind: FS, Mode: ReadWrite, Path: path, Field: field}
}

// Can requires a named capability.
func Can(name string) Requirement { return Requirement{Kind: Capability, Name: name} }

// String returns the name of a requirement in refusals and records, such as rw:fs:./src.
func (r Requirement) String() string {
	if r.Kind == FS {
		return string(r.Mode) + ":fs:" + r.Path
	}
	return string(r.Kind) + ":" + r.Name
}
