package server

import (
	"bytes"
	"context"

	"google.golang.org/grpc"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// ListFolder lists a folder of a project.
func (s *Server) ListFolder(
	_ context.Context, req *toolrunnerv1.ListFolderRequest,
) (*toolrunnerv1.ListFolderResponse, error) {
	entries, more, err := s.runner.ListFolder(req.GetRoot(), req.GetPath(), req.GetAfter(), int(req.GetLimit()))
	if err != nil {
		return nil, err
	}
	resp := &toolrunnerv1.ListFolderResponse{More: more}
	for _, e := range entries {
		resp.Entries = append(resp.Entries, &toolrunnerv1.FolderEntry{
			Name: e.Name, Kind: e.Kind, Size: e.Size, ModifiedAt: e.ModifiedAt,
		})
	}
	return resp, nil
}

// ReadFile streams a file of a project.
func (s *Server) ReadFile(
	req *toolrunnerv1.ReadFileRequest, stream grpc.ServerStreamingServer[toolrunnerv1.ReadFileChunk],
) error {
	send := func(size, modifiedAt int64, data []byte) error {
		// In one process the receiver gets the message itself.
		return stream.Send(&toolrunnerv1.ReadFileChunk{Size: size, ModifiedAt: modifiedAt, Data: bytes.Clone(data)})
	}
	return s.runner.ReadFile(stream.Context(), req.GetRoot(), req.GetPath(), send)
}

// ListChanges compares the files of a project with their earlier content.
func (s *Server) ListChanges(
	ctx context.Context, req *toolrunnerv1.ListChangesRequest,
) (*toolrunnerv1.ListChangesResponse, error) {
	found, err := s.runner.Changes(ctx, req.GetRoot(), req.GetSessionId(), req.GetPath(), req.GetSince())
	if err != nil {
		return nil, err
	}
	resp := &toolrunnerv1.ListChangesResponse{Truncated: found.Truncated, Head: found.Head}
	for _, f := range found.Files {
		resp.Files = append(resp.Files, &toolrunnerv1.ChangedFile{
			Path: f.Path, Kind: f.Kind, Origin: f.Origin, Agents: f.Agents, Added: int32(f.Added),
			Removed: int32(f.Removed),
			Diff:    f.Diff, Truncated: f.Truncated, NoDiff: f.NoDiff,
		})
	}
	return resp, nil
}

// Examine returns facts about the machine.
func (s *Server) Examine(ctx context.Context, _ *toolrunnerv1.ExamineRequest) (*toolrunnerv1.ExamineResponse, error) {
	cages, servers, checks := s.machine.Examine(ctx)
	return &toolrunnerv1.ExamineResponse{Cages: cages, LanguageServers: servers, Checks: checks}, nil
}
