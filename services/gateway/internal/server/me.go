package server

import (
	"net/http"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/access"
)

// me answers GET /api/v1/me with the operator, the version, the mode and the CSRF token. It also sets the CSRF
// cookie.
func (s *Server) me(w http.ResponseWriter, r *http.Request) error {
	operator, err := s.operators.GetOperator(r.Context(), &sessionmanagerv1.GetOperatorRequest{})
	if err != nil {
		return err
	}
	secret, err := s.deps.Gate.Secrets.Current(r.Context())
	if err != nil {
		return err
	}
	id := exchangeOf(r).identity
	name := operator.GetOperatorName()
	if name == "" {
		name = id.UserID
	}
	token := access.CSRFToken(secret, id.UserID)
	s.setCSRF(w, token)
	return answer(w, http.StatusOK, &apiv1.Me{
		UserId: id.UserID, Email: id.Email, Groups: id.Groups, OperatorName: name, CsrfToken: token,
		Daemon: &apiv1.Daemon{
			Version: s.deps.Info.Version, DeploymentMode: s.deps.Info.deployment(), AuthMode: string(s.deps.Info.AuthMode),
			SandboxMode: s.deps.Info.sandbox(), Warnings: s.deps.Info.Warnings(),
		},
		Preferences: &apiv1.Preferences{
			Theme:    or(operator.GetTheme(), "dark"),
			Timezone: or(operator.GetTimezone(), "UTC"),
			Locale:   or(operator.GetLocale(), "en-US"),
		},
	})
}

func (i Info) sandbox() string {
	if i.NoSandbox {
		return "disabled"
	}
	return "enabled"
}

// setCSRF sets the CSRF cookie, which the console's scripts can read.
func (s *Server) setCSRF(w http.ResponseWriter, token string) {
	http.SetCookie(w, &http.Cookie{Name: cookieCSRF, Value: token, Path: "/", SameSite: s.deps.CSRFCookie})
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
