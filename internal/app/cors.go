package app

import "net/http"

// permissive lets scripts of any web page call the handler, as browser consoles
// for development servers expect. It is for development only: the tokens there
// are no secrets.
func permissive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Access-Control-Allow-Origin", "*")
		header.Set("Access-Control-Expose-Headers", "*")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			ignoreBody(w, r)
			answerPreflight(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answerPreflight allows what is asked for. The headers are repeated because "*"
// does not cover Authorization; Private-Network is asked by pages of public sites
// that call this machine.
func answerPreflight(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	header.Set("Access-Control-Max-Age", "600")
	header.Add("Vary", "Access-Control-Request-Headers")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		header.Set("Access-Control-Allow-Headers", asked)
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		header.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
}
