# Receives callbacks, as PSGI: WEBHOOK_SECRET=whsec_… plackup --host 127.0.0.1 --port 9000 receiver.pl

use strict;
use warnings;
use Digest::SHA qw(hmac_sha256_base64);
use MIME::Base64 qw(decode_base64);

# Whether a request was signed with the secret, within five minutes of now.
sub is_ours {
    my ($secret, $env, $body, $now) = @_;
    my ($id, $at) = map { $_ // '' } @$env{qw(HTTP_WEBHOOK_ID HTTP_WEBHOOK_TIMESTAMP)};
    return 0 if $at !~ /\A[0-9]+\z/ || abs($now - $at) > 300;    # it is not signed, or somebody sends an old one again
    my $want = 'v1,' . hmac_sha256_base64("$id.$at.$body", decode_base64($secret =~ s/^whsec_//r)) . '=';
    my $ours = 0;
    for my $signature (split / /, $env->{HTTP_WEBHOOK_SIGNATURE} // '') {    # two while a secret is being replaced
        next if length $signature != length $want;
        my $difference = 0;
        $difference |= ord(substr $signature, $_, 1) ^ ord(substr $want, $_, 1) for 0 .. length($want) - 1;
        $ours ||= $difference == 0;
    }
    return $ours;
}

my $app = sub {
    my $env = shift;
    my $body = '';
    1 while $env->{'psgi.input'}->read($body, 65536, length $body);
    my $ours = is_ours($ENV{WEBHOOK_SECRET}, $env, $body, time);
    if ($ours) {
        # The work goes here. A callback may come twice: keep its webhook-id in the transaction that does the work.
    }
    return [$ours ? 204 : 401, [], []];
};
