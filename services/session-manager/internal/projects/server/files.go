package server

import (
	"context"

	"google.golang.org/grpc"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListProjectFiles lists a folder of a project.
func (s *Server) ListProjectFiles(
	ctx context.Context, req *apiv1.ListProjectFilesRequest,
) (*apiv1.ListProjectFilesResponse, error) {
	p, err := s.projects.Files(ctx, owner(ctx), req.GetId(), req.GetPath(), req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	resp := &apiv1.ListProjectFilesResponse{NextCursor: p.NextCursor(), HasMore: p.HasMore()}
	for _, e := range p.Items {
		resp.Items = append(resp.Items, &apiv1.ProjectEntry{
			Name: e.Name, Path: e.Path, Kind: e.Kind, Size: e.Size, ModifiedAt: e.ModifiedAt,
		})
	}
	return resp, nil
}

// GetProjectFile returns a file of a project.
func (s *Server) GetProjectFile(
	ctx context.Context, req *apiv1.GetProjectFileRequest,
) (*apiv1.GetProjectFileResponse, error) {
	f, err := s.projects.File(ctx, owner(ctx), req.GetId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	return fileToProto(f), nil
}

//convert:one fileToProto projects.Content *apiv1.GetProjectFileResponse

// DownloadProjectFile streams a file of a project.
func (s *Server) DownloadProjectFile(
	req *apiv1.DownloadProjectFileRequest, stream grpc.ServerStreamingServer[apiv1.FileChunk],
) error {
	send := func(size, modifiedAt int64, data []byte) error {
		return stream.Send(&apiv1.FileChunk{Size: size, ModifiedAt: modifiedAt, Data: data})
	}
	ctx := stream.Context()
	return s.projects.Download(ctx, owner(ctx), req.GetId(), req.GetPath(), send)
}
