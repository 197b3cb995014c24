package tools

import (
	"context"
	"io"
	"sync"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/reads"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// chunk is the number of bytes of a file that are read at once.
const chunk = 128 << 10

var chunks = sync.Pool{New: func() any { b := make([]byte, chunk); return &b }}

// copyTo writes the rest of src to dst and stops soon after ctx ends.
func copyTo(ctx context.Context, dst io.Writer, src io.Reader) error {
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := src.Read(*buf)
		if _, werr := dst.Write((*buf)[:n]); werr != nil {
			return werr
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// saw records that the caller knows a file's content.
func (d Deps) saw(call *tool.Call, path paths.Path, content reads.Hash) {
	d.Reads.Saw(call.From.SessionID, call.From.Agent, path.Abs(), content)
}

// check refuses to change a file that the caller has not read in its present state.
func (d Deps) check(call *tool.Call, path paths.Path, content reads.Hash) error {
	if call.From.KnowsFiles {
		return nil
	}
	return d.Reads.Check(call.From.SessionID, call.From.Agent, path.Abs(), path.Show, content)
}

func tooLarge(path paths.Path, limit int64) error {
	return fault.New(fault.FileTooLarge, "%s is larger than %d bytes.", path.Show, limit).
		With("path", path.Show).With("limit_bytes", limit)
}
