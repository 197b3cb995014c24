package server

import (
	"context"
	"strings"

	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// docLink returns the page that documents the rule of a kind of diagnostic.
func docLink(kind string) string {
	switch {
	case strings.HasPrefix(kind, "cage"):
		return "docs/reference/cage.md"
	case strings.HasPrefix(kind, "budget"):
		return "docs/howto/set-a-budget.md"
	}
	return "docs/reference/project.schema.json"
}

// dslInvalid returns the error object for a project file that does not compile, nil for one that does.
func dslInvalid(ctx context.Context, v projects.Verdict) *apiv1.ErrorObject {
	if v.Valid {
		return nil
	}
	f := v.Refusal()
	return &apiv1.ErrorObject{Code: commonv1.ErrorCode(f.Code), Message: f.Msg, RequestId: ident.CallerFrom(ctx).RequestID}
}
