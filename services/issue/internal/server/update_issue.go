package server

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/issue/internal/core/issues"
)

// UpdateIssue changes an issue.
func (s *Server) UpdateIssue(ctx context.Context, req *apiv1.UpdateIssueRequest) (*apiv1.UpdateIssueResponse, error) {
	c := issues.Change{
		Title: req.Title, Body: req.Body, Status: statusNames.of(req.GetStatus()), Comment: req.GetComment(),
		Version: req.GetVersion(),
	}
	var err error
	if c.Assign, c.Assignment, err = assignment(req.GetAssignment()); err != nil {
		return nil, err
	}
	if named := metadata.ValueFromIncomingContext(ctx, ifMatch); len(named) > 0 {
		if c.Version, err = version(named[0]); err != nil {
			return nil, err
		}
	}
	out, err := s.issues.Update(ctx, ref(ctx, req), c)
	if err != nil {
		return nil, err
	}
	return &apiv1.UpdateIssueResponse{Issue: whole(out.Issue, out.Fields), From: statusNames[out.From]}, nil
}

func assignment(v *structpb.Value) (given bool, value string, err error) {
	switch k := v.GetKind().(type) {
	case nil:
		return false, "", nil
	case *structpb.Value_NullValue:
		return true, "", nil
	case *structpb.Value_StringValue:
		return true, k.StringValue, nil
	}
	return false, "", fault.New(fault.ValidationFailed, "assignment must be a text or null.").With("fields",
		[]string{"assignment"})
}

// ifMatch is the metadata key under which the gateway passes the header If-Match.
const ifMatch = "if-match"

// version reads If-Match: a version in quotes, or * for any.
func version(header string) (int64, error) {
	if header == "*" {
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.Trim(strings.TrimPrefix(header, "W/"), `"`), 10, 64)
	if err != nil || n <= 0 {
		return 0, fault.New(fault.BadRequest, `If-Match must be the version of the issue in quotes, such as "3", or *.`)
	}
	return n, nil
}
