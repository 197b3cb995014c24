package toolrunner

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// defaultToolsFile is the name of the file with the operator's commands, in the folder of local.toml.
const defaultToolsFile = "tools.yaml"

// ToolsFile is the file with the operator's commands, as read at the start of the service.
type ToolsFile struct {
	// Path is its path; it may be "".
	Path string
	// Content is its content.
	Content []byte
}

// readToolsFile reads the file at path or, for "", the file in the folder of the operator's configuration if it exists.
// A file that all users of the machine can write is refused, because others could have changed it.
func readToolsFile(path, configPath string) (ToolsFile, error) {
	wanted := path != ""
	if !wanted {
		if configPath == "" {
			return ToolsFile{}, nil
		}
		path = filepath.Join(filepath.Dir(configPath), defaultToolsFile)
	}
	refuse := func(err error, reason string) (ToolsFile, error) {
		return ToolsFile{}, fault.Wrap(err, fault.LocalConfigInvalid, "The operator's tools in %s %s.", path, reason).
			With("path", path)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // the open does not wait for the writer of a pipe
	if errors.Is(err, fs.ErrNotExist) && !wanted {
		return ToolsFile{}, nil
	}
	if err != nil {
		return refuse(err, "cannot be read")
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return refuse(err, "cannot be read")
	case !info.Mode().IsRegular():
		return refuse(nil, "are no regular file")
	case info.Mode().Perm()&0o002 != 0:
		return refuse(nil, "can be changed by everybody on this machine; take that right away with chmod o-w")
	}
	content, err := io.ReadAll(io.LimitReader(file, dsl.MaxFileSize+1))
	if err != nil {
		return refuse(err, "cannot be read")
	}
	return ToolsFile{path, content}, nil
}
