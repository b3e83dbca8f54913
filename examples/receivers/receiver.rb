# Receives callbacks: gem install webrick, then WEBHOOK_SECRET=whsec_… PORT=9000 ruby receiver.rb

require "openssl"
require "webrick"

# Whether a request was signed with the secret, within five minutes of now.
def ours?(secret, request, now)
  id, at = request["webhook-id"], request["webhook-timestamp"]
  # It is not signed, or somebody sends an old one again.
  return false unless at&.match?(/\A\d+\z/) && (now - at.to_i).abs <= 300

  key = secret.delete_prefix("whsec_").unpack1("m")
  want = "v1," + [OpenSSL::HMAC.digest("SHA256", key, "#{id}.#{at}.".b + request.body.to_s.b)].pack("m0")
  given = request["webhook-signature"].to_s.split(" ") # two while a secret is being replaced
  given.any? { |signature| signature.bytesize == want.bytesize && OpenSSL.fixed_length_secure_compare(signature, want) }
end

server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: ENV.fetch("PORT").to_i, AccessLog: [])
server.mount_proc("/") do |request, response|
  ours = ours?(ENV.fetch("WEBHOOK_SECRET"), request, Time.now.to_i)
  if ours
    # The work goes here. A callback may come twice: keep its webhook-id in the transaction that does the work.
  end
  response.status = ours ? 204 : 401
end
trap("TERM") { server.shutdown }
server.start
