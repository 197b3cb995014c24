package sessions

import "context"

// Changes are the files that a session has changed, and others that changed since it began.
type Changes struct {
	Files     []FileChange
	Truncated bool
	// Head is the commit, "" outside a repository.
	Head string
}

// FileChange is a file that differs from its earlier content.
type FileChange struct {
	Path, Kind, Origin string
	Agents             []string
	Added, Removed     int32
	Diff               string
	Truncated          bool
	// NoDiff says why there is no diff, "" if there is one.
	NoDiff string
}

// ChangesQuery selects changes in a project's folder; an empty path selects all.
type ChangesQuery struct {
	Root, Session, Path string
	// Since is when the session began, in milliseconds.
	Since int64
}

// Changes returns the changed files of a session of the caller, ended ones too. It fails with not_found and
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
