package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service"
)

// server is what pqueue serve serves.
type server struct {
	config string // file
	demo   bool

	listen, metrics        string // addresses
	api, delivery, console bool

	topics         int
	topicsOfOne    int // token
	keep           queue_job.Retention
	allow          []string // addresses that callbacks may go to
	secretFile     string
	encryptionFile string
	delayQueue     string            // topic
	delayService   map[string]string // base addresses
	aliasFrom      []string          // networks

	title, passwordFile string
	login, readOnly     bool

	open       bool   // to programs on this machine
	firstToken bool   // is made and shown if there is none
	key        string // of the console, unless something else says who may look

	userHeader     string
	trustedProxies []string // networks
	operators      []string // users

	tell func(at net.Addr) // what else is said when it listens; nil: nothing
}

func (a *app) serveCommand() *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve jobs over HTTP, and the console, until Ctrl-C",
		Long:  serveHelp,
		Example: "  pqueue serve --demo\n  pqueue serve --egress-allow 10.1.0.0/16\n  pqueue serve --listen :8080 --console=false\n" +
			"  pqueue serve --read-only --title 'shop, production'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := settle(cmd, s.config); err != nil {
				return err
			}
			if err := errors.Join(s.parts(cmd), s.checkPlaces()); err != nil {
				return &exit{exitUsage, err}
			}
			password, err := s.password()
			if err != nil {
				return err
			}
			if a.codec, err = s.codec(); err != nil {
				return err
			}
			if s.demo {
				return a.serveDemo(cmd.Context(), &s, password)
			}
			a.useOwnFile()
			return a.serveOn(cmd.Context(), &s, password)
		},
	}
	s.flags(cmd.Flags())
	cmd.Flags().BoolVar(&s.demo, "demo", false, "try it: with a database that is deleted at the end, and a receiver that misbehaves")
	return cmd
}

const serveHelp = `Serve jobs over HTTP, and the console, until Ctrl-C. It does three things, each of which can be switched off, so that
several processes can share the work on one database:

  api        takes tasks in at /v1/ (its description is at /docs) and keeps them in the database
  delivery   sends each task when it is due, as an HTTP request to the address that it names
  console    a web page on the jobs, for you to look and to steer

If no database is named, it uses pqueue.db, a file of SQLite in this directory. It makes the tables that are missing.

Each call of the API needs a token. If there is none at the start, one is made that may do everything, and shown once; pqueue token create makes
others. If what a process says is kept where others can read it, as in Kubernetes, use --first-token=false and pqueue token create. Callbacks
go to public addresses only, unless --egress-allow names others.

The console is for whoever has the link that each start shows. With --login, it asks for a user, whom pqueue user create has made, and notes the
user with each change. With --password-file, browsers ask for a user, which may be any, and for the password that the file has. With
--user-header, a proxy that has logged users in says who they are. Passwords and tokens go over the network as they are, so put a proxy with TLS
in front if it listens on more than this machine, and name it with --trusted-proxy. With --read-only, it serves the console alone, and nobody
can change anything.

With --open-to-this-machine, programs on this machine need neither a token, as long as there is none, nor the link. That is for a machine without
a proxy: nginx and HAProxy as they come look like a program on this machine, and then everybody may do everything.

/livez says that the process makes progress, with or without a database; /readyz says that requests may be sent here.

Each flag can be set in a file of YAML, which --config names, and in the environment: --egress-allow is egress-allow there, and
PQUEUE_EGRESS_ALLOW here. If a setting is given in several places, the flag counts, then the environment, then the file. pqueue check-config
shows the values that count. In the file, each setting has a line:

  listen: 0.0.0.0:8080
  dsn-file: /run/secrets/pqueue-dsn
  password-file: /run/secrets/pqueue-password
  secret-file: /run/secrets/pqueue-signing
  encryption-file: /run/secrets/pqueue-encryption
  egress-allow: [10.1.0.0/16, "*.svc.cluster.local"]

Applications in Go can have the same console below a path of their own, behind their own login: package console.`

const day = 24 * time.Hour

// flags are the settings of a server.
func (s *server) flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.config, "config", "", "file with settings, in YAML")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8080", "address to listen on; port 0: any that is free")
	flags.BoolVar(&s.api, "api", true, "take tasks in")
	flags.BoolVar(&s.delivery, "delivery", true, "send tasks")
	flags.BoolVar(&s.console, "console", true, "serve the console")
	flags.StringVar(&s.metrics, "metrics-listen", "", "address where Prometheus may read /metrics of the delivery, such as :9090 (default: none)")
	flags.StringSliceVar(&s.allow, "egress-allow", nil,
		"addresses that callbacks may go to although they are not public, such as 10.1.0.0/16 or *.svc.cluster.local")
	flags.StringVar(&s.secretFile, "secret-file", "",
		"file with the secrets that sign callbacks, one a line: whsec_… or whsk_…, or a pattern of topics and a secret")
	flags.StringVar(&s.encryptionFile, "encryption-file", "",
		"file with the keys that encrypt tasks in the database, one a line: an id and 32 bytes in base64; the first encrypts (default: they are in clear)")
	flags.IntVar(&s.topics, "topics", 10_000, "how many topics there may be")
	flags.IntVar(&s.topicsOfOne, "topics-per-token", 0,
		"how many topics may fit a token's patterns when it makes another one, unless it has the scope admin (default: half of --topics)")
	flags.StringVar(&s.delayQueue, "delay-queue", "", "topic for tasks of clients of delay_queue, at /api/task/save (default: none are taken)")
	flags.StringToStringVar(&s.delayService, "delay-service", nil,
		"base addresses of services, by their sn, for clients of /delay/task/add, such as shop=http://10.1.2.3:8080")
	flags.StringSliceVar(&s.aliasFrom, "alias-from", nil, "networks from which such clients need no token")
	flags.StringVar(&s.title, "title", "", "a name for the top of the console's pages (default: Jobs)")
	flags.StringVar(&s.passwordFile, "password-file", "", "file with the password that the console asks for")
	flags.Var(inDays(&s.keep.Done, 3*day), "keep-succeeded",
		"delete tasks this long after they succeeded or were cancelled, such as 12h or 7d; 0: never")
	flags.Var(inDays(&s.keep.Failed, 30*day), "keep-failed", "delete tasks this long after they failed, such as 12h or 7d; 0: never")
	flags.BoolVar(&s.login, "login", false, "the console asks for a user and a password: pqueue user create makes users")
	flags.BoolVar(&s.firstToken, "first-token", true, "make a token that may do everything if there is none, and show it once")
	flags.BoolVar(&s.open, "open-to-this-machine", false,
		"programs on this machine need no token, as long as there is none, and no link to the console; not if a proxy is in front")
	flags.StringVar(&s.userHeader, "user-header", "", "header in which a trusted proxy says who uses the console, such as X-Forwarded-User")
	flags.StringSliceVar(&s.operators, "operators", nil, "users of --user-header who may change things (default: all of them)")
	flags.StringSliceVar(&s.trustedProxies, "trusted-proxy", nil, "networks of proxies that say, in X-Forwarded-For, from which address a request comes")
	flags.BoolVar(&s.readOnly, "read-only", false, "serve the console alone, and nobody can change anything")
}

// retained is a duration that may have days.
type retained time.Duration

func inDays(to *time.Duration, usual time.Duration) *retained {
	*to = usual
	return (*retained)(to)
}

func (d *retained) Type() string { return "duration" }

func (d *retained) Set(text string) error {
	is, err := words.ParseSpan(text)
	if err != nil || is < 0 {
		return fmt.Errorf("%q is no duration; write one such as 12h or 7d, or 0", text)
	}
	*d = retained(is)
	return nil
}

func (d *retained) String() string {
	switch is := time.Duration(*d); {
	case is == 0:
		return "0"
	case is%day == 0:
		return fmt.Sprint(int(is/day), "d")
	default:
		return is.String()
	}
}

// parts says which parts are served: with --read-only, only the console, since the others write.
func (s *server) parts(cmd *cobra.Command) error {
	if s.readOnly {
		if cmd.Flags().Changed("api") && s.api || cmd.Flags().Changed("delivery") && s.delivery || s.demo {
			return exitf(exitUsage, "--read-only serves the console alone; leave out --api, --delivery and --demo")
		}
		s.api, s.delivery = false, false
	}
	if !s.api && !s.delivery && !s.console {
		return exitf(exitUsage, "nothing is left to serve; switch on --api, --delivery or --console")
	}
	return nil
}

// checkPlaces refuses numbers of topics and addresses that there cannot be.
func (s *server) checkPlaces() error {
	var errs []error
	if s.topics < 1 {
		errs = append(errs, exitf(exitUsage, "--topics is %d; it is to be 1 or more", s.topics))
	} else if s.topicsOfOne < 0 || s.topicsOfOne > s.topics {
		errs = append(errs, exitf(exitUsage, "--topics-per-token is %d; it is to be from 1 to --topics, which is %d, or 0 for half of it",
			s.topicsOfOne, s.topics))
	}
	for flag, address := range map[string]string{"--listen": s.listen, "--metrics-listen": cmp.Or(s.metrics, ":0")} {
		_, port, err := net.SplitHostPort(address)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			errs = append(errs, exitf(exitUsage, "%s %s: %w", flag, address, err))
		}
	}
	return errors.Join(errs...)
}

// password reads the password. Without one, the console must not be seen from elsewhere.
func (s *server) password() (string, error) {
	if s.passwordFile != "" && s.login || s.userHeader != "" && (s.login || s.passwordFile != "") {
		return "", exitf(exitUsage, "--login, --password-file and --user-header are ways to say who may look; use one of them")
	}
	if err := s.checkOpen(); err != nil {
		return "", err
	}
	if s.passwordFile == "" {
		host, _, err := net.SplitHostPort(s.listen)
		if err != nil {
			return "", nil // checkPlaces has refused it
		}
		if s.console && !s.login && s.userHeader == "" && !isThisMachine(host) {
			return "", exitf(exitUsage,
				"--listen %s: other machines could look at the console, and change jobs; ask for users with --login, set a password with --password-file, "+
					"let a proxy say who they are with --user-header, listen on 127.0.0.1, or leave the console out with --console=false", s.listen)
		}
		if !s.login && s.userHeader == "" && !s.open {
			s.key = newKey()
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
	if _, err := service.ProtectWithPassword(password, http.NotFoundHandler()); err != nil {
		return "", exitf(exitUsage, "--password-file: %s: %w; openssl rand -base64 18 makes one", s.passwordFile, err)
	}
	return password, nil
}

// checkOpen refuses --open-to-this-machine where others may be taken for it.
func (s *server) checkOpen() error {
	host, _, err := net.SplitHostPort(s.listen)
	switch {
	case !s.open || err != nil:
		return nil
	case !isThisMachine(host):
		return exitf(exitUsage, "--open-to-this-machine: --listen %s is open to other machines, too; listen on 127.0.0.1, or leave one of the two out",
			s.listen)
	case len(s.trustedProxies) > 0:
		return exitf(exitUsage,
			"--open-to-this-machine: --trusted-proxy says that a proxy is in front, and its requests look as if this machine had sent them; "+
				"leave one of the two out")
	}
	return nil
}

// query is what the link to the console ends with, if it has the key.
func (s *server) query() string {
	if s.key == "" {
		return ""
	}
	return "?key=" + s.key
}

func isThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// permit says who may do what, once somebody has logged in or the password was right.
func (s *server) permit(password string, p *proxies) func(*http.Request, console.Verb, int32) bool {
	return func(r *http.Request, do console.Verb, jobType int32) bool {
		if s.readOnly && do != console.See {
			return false
		}
		switch {
		case s.userHeader != "":
			return p.permits(userOf(r), do)
		case s.login:
			user := service.UserOf(r)
			return user != nil && (do == console.See || user.Role == service.Operator)
		}
		return password != "" || s.key != "" || console.FromThisMachine(r, do, jobType)
	}
}

// protected is the console behind what says who looks.
func (a *app) protected(ctx context.Context, db *database, s *server, password string, p *proxies) (http.Handler, error) {
	options := []console.Option{console.WithTitle(cmp.Or(s.title, "Jobs")), console.WithPermit(s.permit(password, p)), console.WithMask(maskTask),
		console.WithSchedules(func(text string) (queue_job.Schedule, error) { return cron.Parse(text) })}
	if a.codec != nil { // whoever may look sees what was seen without encryption
		options = append(options, console.WithDecoded())
	}
	if s.userHeader != "" {
		return p.require(console.Handler(db.jobs, append(options, console.WithActor(userOf))...)), nil
	}
	if !s.login && password != "" {
		return service.ProtectWithPassword(password, console.Handler(db.jobs, options...))
	}
	if !s.login && s.key != "" {
		return withKey(s.key, console.Handler(db.jobs, options...)), nil
	}
	if !s.login {
		return console.Handler(db.jobs, options...), nil
	}
	users, err := service.OpenUsers(ctx, db.DB, a.prefix)
	if err != nil {
		return nil, err
	}
	if there, err := users.List(ctx); err != nil || len(there) == 0 {
		return nil, errors.Join(err, exitf(exitUsage, "--login: nobody could log in; pqueue user create NAME makes a user"))
	}
	options = append(options, console.WithActor(func(r *http.Request) string { return service.UserOf(r).Name }), console.WithLogout("logout"))
	return users.Protect(console.Handler(db.jobs, options...)), nil
}
