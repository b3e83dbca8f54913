package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/console"
)

// server is what pqueue serve serves.
type server struct {
	listen, title, passwordFile string
	readOnly                    bool
}

func (a *app) serveCommand() *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the console, a web page on the jobs, until Ctrl-C",
		Long: `Serve the console, a web page on the jobs, until Ctrl-C: job types and who runs them, jobs and why they wait, instances and leases.

Without a password, it listens on this machine only, and only programs on this machine may look. With --password-file, browsers ask for a
user, which may be any, and for the password that the file has. The password goes over the network as it is, so put a proxy with TLS in
front if the console listens on more than this machine.

Applications in Go can have the same console below a path of their own, behind their own login: package console.`,
		Example: "  pqueue serve\n  pqueue serve --read-only --title 'shop, production'\n  pqueue serve --listen :8080 --password-file /run/secrets/console",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			password, err := s.password()
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), func(db *database) error { return a.serve(cmd.Context(), db, &s, password) })
		},
	}
	cmd.Flags().StringVar(&s.listen, "listen", "127.0.0.1:8080", "address to listen on; port 0: any that is free")
	cmd.Flags().StringVar(&s.title, "title", "", "a name for the top of the pages (default: Jobs)")
	cmd.Flags().StringVar(&s.passwordFile, "password-file", "", "file with the password that browsers ask for")
	cmd.Flags().BoolVar(&s.readOnly, "read-only", false, "nobody can change anything")
	return cmd
}

// password reads the password. Without one, the console must not be seen from elsewhere.
func (s *server) password() (string, error) {
	if s.passwordFile == "" {
		host, _, err := net.SplitHostPort(s.listen)
		if err != nil {
			return "", exitf(exitUsage, "--listen %s: %w", s.listen, err)
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return "", exitf(exitUsage, "--listen %s: other machines could look, and change jobs; set a password with --password-file, or listen on 127.0.0.1", s.listen)
		}
		return "", nil
	}
	text, err := os.ReadFile(s.passwordFile)
	if err != nil {
		return "", exitf(exitUsage, "--password-file: %w", err)
	}
	password := strings.TrimSpace(string(text))
	if password == "" {
		return "", exitf(exitUsage, "--password-file: %s is empty", s.passwordFile)
	}
	return password, nil
}

// permit says who may do what, once the password was right.
func (s *server) permit(password string) console.Permit {
	return func(r *http.Request, do console.Verb, jobType int32) bool {
		return (do == console.See || !s.readOnly) && (password != "" || console.FromThisMachine(r, do, jobType))
	}
}

// withPassword lets requests through that have the password.
func withPassword(password string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, given, _ := r.BasicAuth()
		if got := sha256.Sum256([]byte(given)); password != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 0 {
			w.Header().Set("WWW-Authenticate", `Basic realm="pqueue", charset="UTF-8"`)
			http.Error(w, "the password is missing or wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (a *app) serve(ctx context.Context, db *database, s *server, password string) error {
	const headersMax, endMax = 10 * time.Second, 5 * time.Second
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return exitf(exitError, "--listen: %w", err)
	}
	pages := console.Handler(db.jobs, console.WithTitle(cmp.Or(s.title, "Jobs")), console.WithPermit(s.permit(password)))
	web := &http.Server{Handler: withPassword(password, pages), ReadHeaderTimeout: headersMax}
	a.sayf("the console is at http://%s/ until Ctrl-C", listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	select {
	case err = <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), endMax)
	defer cancel()
	if err := web.Shutdown(patience); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil // Ctrl-C is the way out
}
