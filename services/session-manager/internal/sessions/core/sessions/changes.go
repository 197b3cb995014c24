package sessions

import "context"

// Changes are the files that a session has changed, and the other files that have changed since the session began.
type Changes struct {
	Files     []FileChange
	Truncated bool
	// Head is the git commit, "" outside a repository.
	Head string
}

// FileChange is a file that differs from its content at the beginning of the session.
type FileChange struct {
	Path, Kind, Origin string
	Agents             []string
	Added, Removed     int32
	Diff               string
	Truncated          bool
	// NoDiff is the reason for a missing diff, "" if there is one.
	NoDiff string
}

// ChangesQuery selects changed files in a project's folder; an empty path selects all.
type ChangesQuery struct {
	Root, Session, Path string
	// Since is the beginning of the session, in Unix milliseconds.
	Since int64
}

// Changes returns the changed files of the caller's session, which may have ended. It fails with not_found and
// unavailable.
func (s *Service) Changes(ctx context.Context, id, path string) (Changes, error) {
	found, err := s.find(ctx, id)
	if err != nil {
		return Changes{}, err
	}
	return s.Tools.Changes(ctx, found.Workspace, ChangesQuery{
		Root: found.ProjectPath, Session: id, Path: path, Since: found.CreatedAt,
	})
}
