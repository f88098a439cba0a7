package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"posthaste/internal/dispatch"
	"posthaste/internal/sign"
)

// TestAlert checks that an operator is told of a message that failed for good, by one
// that is signed, and that no user learns of it: not the one whose token is the first.
func TestAlert(t *testing.T) {
	const key = "sig_0000000000000000000000000001"
	type delivery struct {
		signature, body string
	}
	alerts := make(chan delivery, 1)
	operator := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		alerts <- delivery{r.Header.Get("Upstash-Signature"), string(body)}
	}))
	defer operator.Close()
	failing := httptest.NewServer(http.NotFoundHandler())
	defer failing.Close()
	first := sign.Token{UserID: "first", Password: "pw"}
	url := startWith(t, func(o *Options) {
		o.Tokens = []string{first.Encode(), token}
		o.Alerts = Alerts{URL: operator.URL, SigningKey: key}
	})

	call(t, http.MethodPost, url+"/v2/publish/"+failing.URL+"?upstash-retries=0&upstash-label=posthaste-alert")
	alert := <-alerts
	if !strings.Contains(alert.body, `"deadLetters":1`) || !strings.Contains(alert.body, `"user":"ada"`) {
		t.Errorf("told %s", alert.body)
	}
	verifier := sign.Verifier{Keys: sign.KeyPair{Current: key, Next: key}}
	if err := verifier.Verify(alert.signature, operator.URL, []byte(alert.body), time.Now()); err != nil {
		t.Errorf("the signature %q is not by the key of alerts: %v", alert.signature, err)
	}
	for user, token := range map[string]string{"first": first.Encode(), "ada": token} {
		if _, log := callAs(t, token, http.MethodGet, url+"/v2/logs"); strings.Contains(log, operator.URL) {
			t.Errorf("the log of %s has the alert: %s", user, log)
		}
	}
}

// TestAlertToRefusedAddress checks that a server does not start that could not tell.
func TestAlertToRefusedAddress(t *testing.T) {
	_, err := New(t.Context(), Options{
		Listeners: []net.Listener{listen(t)}, Data: t.TempDir(), Tokens: []string{token}, Log: slog.New(slog.DiscardHandler),
		Alerts: Alerts{URL: "http://127.0.0.1/hook"},
	})
	if err == nil || !strings.Contains(err.Error(), "alert-url") {
		t.Errorf("error %v, want one about alert-url", err)
	}
}

// startWith is start with other options.
func startWith(t *testing.T, change func(*Options)) (url string) {
	t.Helper()
	listener := listen(t)
	options := Options{
		Listeners: []net.Listener{listener}, Data: t.TempDir(), Tokens: []string{token}, Log: slog.New(slog.DiscardHandler),
		Destinations: dispatch.Policy{Mode: dispatch.ModeAny},
	}
	change(&options)
	server, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	return "http://" + listener.Addr().String()
}
