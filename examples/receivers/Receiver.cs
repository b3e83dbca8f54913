// Receives callbacks: WEBHOOK_SECRET=whsec_… PORT=9000 and dotnet run, or mcs Receiver.cs && mono Receiver.exe

using System;
using System.Collections.Specialized;
using System.IO;
using System.Linq;
using System.Net;
using System.Security.Cryptography;
using System.Text;

public static class Receiver
{
    // Whether a request was signed with the secret, within five minutes of now.
    static bool IsOurs(string secret, NameValueCollection headers, byte[] body, DateTimeOffset now)
    {
        string id = headers["webhook-id"] ?? "", at = headers["webhook-timestamp"] ?? "", given = headers["webhook-signature"] ?? "";
        if (!long.TryParse(at, out var seconds) || Math.Abs(now.ToUnixTimeSeconds() - seconds) > 300)
            return false; // it is not signed, or somebody sends an old one again
        var key = Convert.FromBase64String(secret.StartsWith("whsec_") ? secret.Substring(6) : secret);
        byte[] text = Encoding.UTF8.GetBytes(id + "." + at + ".").Concat(body).ToArray(), want;
        using (var mac = new HMACSHA256(key))
            want = Encoding.UTF8.GetBytes("v1," + Convert.ToBase64String(mac.ComputeHash(text)));
        return given.Split(' ').Any(s => Same(Encoding.UTF8.GetBytes(s), want)); // two while a secret is being replaced
    }

    // It takes the same time wherever they differ.
    static bool Same(byte[] a, byte[] b)
    {
        var difference = a.Length ^ b.Length;
        for (var i = 0; i < a.Length && i < b.Length; i++)
            difference |= a[i] ^ b[i];
        return difference == 0;
    }

    public static void Main()
    {
        var secret = Environment.GetEnvironmentVariable("WEBHOOK_SECRET");
        var server = new HttpListener();
        server.Prefixes.Add("http://127.0.0.1:" + Environment.GetEnvironmentVariable("PORT") + "/");
        server.Start();
        for (;;)
        {
            var call = server.GetContext();
            call.Response.StatusCode = 500; // unless all goes well below
            try
            {
                var body = new MemoryStream();
                call.Request.InputStream.CopyTo(body);
                var ours = IsOurs(secret, call.Request.Headers, body.ToArray(), DateTimeOffset.UtcNow);
                if (ours)
                {
                    // The work goes here. A callback may come twice: keep its webhook-id in the transaction that does the work.
                }
                call.Response.StatusCode = ours ? 204 : 401;
            }
            catch (Exception e) // or it would end the process
            {
                Console.Error.WriteLine(e);
            }
            call.Response.Close();
        }
    }
}
