package wire

import (
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	"kaged.dev/services/session-manager/internal/core/frames"
)

// Subject returns what an operator is asked as protobuf.
func Subject(s frames.Subject) *commonv1.ApprovalSubject {
	return &commonv1.ApprovalSubject{
		Tool: s.Tool, AgentPath: s.AgentPath, Reasons: s.Reasons, Command: s.Command, Cwd: s.Cwd, Paths: s.Paths, Preview: s.Preview,
	}
}

// FromSubject is the reverse of [Subject].
func FromSubject(p *commonv1.ApprovalSubject) frames.Subject {
	return frames.Subject{
		Tool: p.GetTool(), AgentPath: p.GetAgentPath(), Reasons: p.GetReasons(), Command: p.GetCommand(), Cwd: p.GetCwd(),
		Paths: p.GetPaths(), Preview: p.GetPreview(),
	}
}
