package app

import (
	"net/http"

	"posthaste/internal/api"
)

// permissive lets scripts of any web page call the handler, as browser consoles
// for development servers expect. It is for development only: the tokens there
// are no secrets.
func permissive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		api.AllowOrigins(header)
		header.Set("Access-Control-Expose-Headers", "*")
		if !api.IsPreflight(r) {
			next.ServeHTTP(w, r)
			return
		}
		ignoreBody(w, r)
		// Pages of public sites ask for this when they call this machine.
		if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
			header.Set("Access-Control-Allow-Private-Network", "true")
		}
		api.AnswerPreflight(w, r)
	})
}
